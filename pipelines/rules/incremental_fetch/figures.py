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
        # FETCH_SESSION_ID_NOT_FOUND (70): the broker has given the session's slot to another
        "turned_away": """
            SELECT recording, count(*) FILTER (error_code = 70) AS evicted,
                count(*) FILTER (session_epoch = 0 AND error_code = 0 AND response_session_id = 0)
                    AS refused
            FROM fetches WHERE NOT is_cluster_metadata GROUP BY recording""",
        "peaks": """
            SELECT recording, max(sessions) AS peak_sessions FROM (
                SELECT recording, sum(
                    CASE event WHEN 'created' THEN 1 WHEN 'refused' THEN 0 ELSE -1 END
                ) OVER (
                    PARTITION BY recording, node_id ORDER BY event_at, event = 'created'
                    ROWS UNBOUNDED PRECEDING
                ) AS sessions
                FROM fetch_session_evictions WHERE parameter = 'none')
            GROUP BY recording""",
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

    @property
    def turned_away(self) -> tuple[int, int]:
        """Sessions that brokers refused, and evicted, as recorded."""
        found = [(row["refused"], row["evicted"]) for row in self.found("turned_away")]
        return found[0] if found else (0, 0)

    @property
    def peak(self) -> int:
        """Sessions open at once on the broker with the most, if all get a slot."""
        return max((row["peak_sessions"] for row in self.found("peaks")), default=0)

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

    def lead(self, variant: str) -> Traffic | None:
        """Traffic of the kind of client that the headlines are about."""
        return self.total(variant, self.lead_kind)

    @property
    def partitions(self) -> tuple[float, float] | None:
        """Partitions that a FETCH lists, in full and with sessions."""
        pair = both(self.lead(FULL), self.lead(INCREMENTAL))
        return both(*(one.request_partitions_mean for one in pair)) if pair else None
