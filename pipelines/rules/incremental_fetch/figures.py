"""incremental_fetch in the report: partitions and bytes that FETCHes carry, and session slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kip_replay.pipelines.report.reading import AT, counted
from kip_replay.pipelines.report.values import RuleFigures, Traffic, both
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, RULE, SESSION_SLOTS, ClientKind
from kip_replay.replay.outcomes import RECORDED, Verdict

FOLLOWER, CONSUMER = ClientKind.FOLLOWER.value, ClientKind.CONSUMER.value
WITHOUT_SESSIONS = ClientKind.CONSUMER_WITHOUT_SESSIONS.value
KINDS = (FOLLOWER, CONSUMER, WITHOUT_SESSIONS)
EVENTS = ("created", "refused", "evicted", "closed")
_COMPARED = {
    "incremental": "NOT is_full",
    "equal": "equals_recorded",
    "compared": "equals_recorded IS NOT NULL",
}


@dataclass(frozen=True)
class Figures(RuleFigures):
    """FETCHes of topic partitions by variant and kind of client."""

    NAME = RULE
    SWEEP = SESSION_SLOTS
    TRAFFIC_ERRORS: ClassVar[Mapping[str, str]] = {
        "partitions": "request_partitions_mean",
        "bytes": "fetch_bytes",
    }
    QUERIES: ClassVar[Mapping[str, str]] = {
        "verdicts": counted("fetch_session_outcomes", "'fetches'", _COMPARED),
        "events": f"""
            SELECT recording, variant, {AT}, event, count(*) AS n FROM fetch_session_evictions
            WHERE parameter IN ('none', '{SESSION_SLOTS}') GROUP BY ALL""",
    }

    @property
    def uses_sessions(self) -> bool:
        return self.tally("incremental", variant=RECORDED) > 0

    @property
    def fetches(self) -> int:
        return self.tally("n", variant=RECORDED)

    @property
    def compared(self) -> tuple[int, int]:
        """Recorded incremental FETCHes that come out the same, and all that were compared."""
        of = {"variant": INCREMENTAL}
        return self.tally("equal", **of), self.tally("compared", **of)

    def unknown(self, variant: str) -> int:
        """FETCHes that could not be replayed."""
        return self.tally("n", variant=variant, verdict=Verdict.UNKNOWN.value)

    def events(self, at: int | None = None) -> dict[str, int]:
        """How many sessions were created, refused, evicted, closed."""
        found: Counter[str] = Counter()
        for row in self.found("events", at=at):
            if at is None or row["variant"] == INCREMENTAL:
                found[row["event"]] += row["n"]
        return found

    @property
    def swept(self) -> list[int]:
        """The numbers of slots, rising."""
        events = {row["at"] for row in self.found("events") if row["at"] is not None}
        return sorted({*super().swept, *events})

    @property
    def kinds(self) -> list[str]:
        """Kinds of clients that fetched, followers first."""
        seen = {kind for _, kind, at in self.traffic if at is None}
        return [*(kind for kind in KINDS if kind in seen), *sorted(seen - {*KINDS})]

    @property
    def lead_kind(self) -> str | None:
        """Whose partitions the headlines are about: followers, else the first kind there is."""
        return self.kinds[0] if self.kinds else None

    @property
    def overheads(self) -> tuple[float, float] | None:
        """Bytes a second besides records, in full and with sessions."""
        return both(self.rates(FULL).overhead or None, self.rates(INCREMENTAL).overhead)

    @property
    def saved(self) -> float:
        """Bytes a second that sessions save."""
        return self.overheads[0] - self.overheads[1] if self.overheads else 0.0

    @property
    def share_left(self) -> float:
        """Bytes besides records with sessions, as a share of those in full."""
        return self.overheads[1] / self.overheads[0] if self.overheads else 1.0

    def lead(self, variant: str) -> Traffic | None:
        """Traffic of the kind of client that the headlines are about."""
        return self.total(variant, self.lead_kind)

    @property
    def partitions(self) -> tuple[float, float] | None:
        """Partitions that a FETCH lists, in full and with sessions."""
        pair = both(self.lead(FULL), self.lead(INCREMENTAL))
        return both(*(one.request_partitions_mean for one in pair)) if pair else None
