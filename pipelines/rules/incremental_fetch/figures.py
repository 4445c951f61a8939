"""incremental_fetch in the report: partitions and bytes that FETCHes carry, and session slots."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kip_replay.pipelines.page.reading import AT, PLAIN, broker_config, counted
from kip_replay.pipelines.page.values import RuleFigures, Traffic, both
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, RULE, SESSION_SLOTS, ClientKind
from kip_replay.replay.incremental_fetch.cache import SHARDS, SessionEvent
from kip_replay.replay.incremental_fetch.streams import Unknown
from kip_replay.replay.outcomes import RECORDED, Verdict

FOLLOWER, CONSUMER = ClientKind.FOLLOWER.value, ClientKind.CONSUMER.value
WITHOUT_SESSIONS = ClientKind.CONSUMER_WITHOUT_SESSIONS.value
KINDS = (FOLLOWER, CONSUMER, WITHOUT_SESSIONS)
#: The broker's config that sweeps vary.
CACHE_SLOTS = "max.incremental.fetch.session.cache.slots"
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
        "peaks": f"""
            WITH steps AS (
                SELECT recording, node_id, shard, epoch_us(event_at) AS at_us,
                    CASE event WHEN '{SessionEvent.CREATED}' THEN 1 ELSE -1 END AS step
                FROM fetch_session_evictions
                WHERE {PLAIN} AND variant = '{INCREMENTAL}' AND event != '{SessionEvent.REFUSED}'),
            held AS (
                SELECT recording, node_id, shard,
                    sum(step) OVER (of_node ORDER BY at_us, step ROWS UNBOUNDED PRECEDING)
                        AS in_node,
                    sum(step) OVER (of_shard ORDER BY at_us, step ROWS UNBOUNDED PRECEDING)
                        AS in_shard
                FROM steps WINDOW of_node AS (PARTITION BY recording, node_id),
                    of_shard AS (PARTITION BY recording, node_id, shard))
            SELECT recording, node_id, max(in_node) AS peak_sessions,
                CASE WHEN count(*) = count(shard) THEN {SHARDS} * max(in_shard) END AS slots
            FROM held GROUP BY recording, node_id ORDER BY recording, node_id""",
        "not_counted": f"""
            SELECT recording, count(DISTINCT session_key) AS n FROM fetch_session_outcomes
            WHERE {PLAIN} AND variant = '{INCREMENTAL}' AND reason = '{Unknown.BEGAN_BEFORE_LOG}'
            GROUP BY recording""",
        "in_force": broker_config(CACHE_SLOTS),
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
        found = ((row["refused"], row["evicted"]) for row in self.found("turned_away"))
        return next(found, (0, 0))

    @property
    def peak(self) -> int:
        """Sessions open at once on the broker with the most, if all get a slot."""
        return max(self.peak_sessions.values(), default=0)

    def unknown(self, variant: str) -> int:
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
        events = {row["at"] for row in self.found("events") if row["at"] is not None}
        return sorted({*super().swept, *events})

    @property
    def peak_sessions(self) -> dict[int, int]:
        """The most sessions that each broker held at once, with slots for all.

        A session counts until its client closes it, as in Kafka's cache; one that began before the
        log does not (``not_counted``).
        """
        return {row["node_id"]: row["peak_sessions"] for row in self.found("peaks")}

    @property
    def not_counted(self) -> int:
        return sum(row["n"] for row in self.found("not_counted"))

    @property
    def fewest_slots(self) -> int | None:
        """With so many slots no broker refuses or evicts a session of this log; with 8 fewer one
        does. None: no session was created, or a hole hides in which shard."""
        slots = [row["slots"] for row in self.found("peaks")]
        return None if None in slots else max(slots, default=None)

    @property
    def slots_in_force(self) -> list[int]:
        """What brokers returned to DESCRIBE_CONFIGS, rising; none where no line has it."""
        return [row["in_force"] for row in self.found("in_force")]

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
        return self.total(variant, self.lead_kind)

    @property
    def partitions(self) -> tuple[float, float] | None:
        """Partitions that a FETCH lists, in full and with sessions."""
        pair = both(self.lead(FULL), self.lead(INCREMENTAL))
        return both(*(one.request_partitions_mean for one in pair)) if pair else None
