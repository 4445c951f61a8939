"""The cluster's events as marks of charts: those of one kind that come together are one."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import duckdb

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.view import Mark

#: Marks of a chart; more are merged over longer times.
_MOST = 100
#: Nodes that a mark names.
_NAMED = 6
#: The kind of a mark by that of its event in ``cluster_events``.
_KINDS = {
    "metadata_leader": "election",
    "partition_leader": "election",
    "isr_shrink": "isr",
    "isr_expansion": "isr",
    "broker_started": "restart",
    "broker_fenced": "fenced",
    "broker_unfenced": "fenced",
    "controlled_shutdown": "fenced",
    "session_lost": "eviction",
    "config_change": "config",
    "log_gap": "gap",
}
#: Several events of a kind: what is counted, and the words.
_MANY = {
    "metadata_leader": ("election", "{count} of the metadata log’s leader: {nodes}"),
    "partition_leader": ("election", "{count} of partition leaders: {nodes}"),
    "isr_shrink": ("partition", "ISR of {count} shrank: without {nodes}"),
    "isr_expansion": ("partition", "ISR of {count} grew: with {nodes}"),
    "broker_started": ("broker", "{brokers} started"),
    "broker_fenced": ("broker", "{brokers} fenced"),
    "broker_unfenced": ("broker", "{brokers} no longer fenced"),
    "controlled_shutdown": ("broker", "{brokers} shut down"),
    "session_lost": ("FETCH", "{count} found no session on {nodes}: evicted, or a restart"),
    "config_change": ("config change", "{count}: {first}, …"),
    "log_gap": ("hole", "{count} in the logs of {nodes}"),
}


class _Events(NamedTuple):
    """Events of a kind in one bucket; ``at`` and ``what`` are those of the first."""

    kind: str
    at: float
    number: int
    nodes: Sequence[int]
    what: str


def marks(database: duckdb.DuckDBPyConnection, recording: str, bucket_s: int) -> list[Mark]:
    """What happened to a recording's cluster, in the order of time; at most a hundred marks.

    ``bucket_s``: of its ``time_buckets``. Every chart has them, so a session finds them once.
    """
    if not database.execute(_ARE_FOUND).fetchone():
        database.execute(_EVENTS)
    rows = database.execute(
        "SELECT kind, event_at, number, nodes, what FROM marked_events "
        "WHERE recording = ? ORDER BY event_at, kind",
        [recording],
    ).fetchall()
    found = [_Events(*row) for row in rows]
    width_s = bucket_s
    while len(found) > _MOST:
        width_s *= 2
        found = _merged(found, width_s)
    return [Mark(one.at, _KINDS.get(one.kind, one.kind), _text(one)) for one in found]


def _merged(events: Iterable[_Events], width_s: int) -> list[_Events]:
    together: Mapping[tuple[str, int], list[_Events]] = defaultdict(list)
    for one in events:
        together[one.kind, int(one.at // width_s)].append(one)
    return sorted(
        (
            of[0]._replace(
                number=sum(one.number for one in of),
                nodes=sorted({node for one in of for node in one.nodes}),
            )
            for of in together.values()
        ),
        key=lambda one: (one.at, one.kind),
    )


def _text(one: _Events) -> str:
    first = words.visible(one.what)
    if one.kind not in _MANY or (one.number == 1 and len(one.nodes) < 2):
        return first
    noun, text = _MANY[one.kind]
    named = [str(node) for node in one.nodes[:_NAMED]]
    if more := len(one.nodes) - len(named):
        named.append(f"{more} more")
    nodes = words.joined(named) if named else "none"
    brokers = f"broker{'s' * (len(one.nodes) > 1)} {nodes}"
    count = words.count(one.number, noun, "FETCHes" if noun == "FETCH" else None)
    return text.format(count=count, nodes=nodes, brokers=brokers, first=first)


_ARE_FOUND = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'marked_events'"
#: A partition whose ISR loses two replicas is one.
_EVENTS = """
CREATE TEMP TABLE marked_events AS
SELECT
  recording, kind, epoch_us(min(event_at)) / 1e6 AS event_at,
  if(kind IN ('isr_shrink', 'isr_expansion'), count(DISTINCT subject), count(*)) AS number,
  coalesce(list_sort(list(DISTINCT node_id) FILTER (node_id IS NOT NULL)), []) AS nodes,
  min_by(what, (event_at, what)) AS what
FROM cluster_events JOIN time_buckets USING (recording)
WHERE event_at IS NOT NULL
GROUP BY recording, kind, epoch_us(event_at) // (bucket_s * 1000000)
"""
