"""lowest_acked_offset over time."""

from kip_replay.pipelines.page.view import Timeline

TIMELINES = (
    Timeline(
        name="How long brokers show metadata from before a write, over time",
        note="from the response to a write until every broker had applied it",
        view="stale_window_over_time",
        where="metric = 'stale_window' AND variant <> 'finest_evidence'",
    ),
    Timeline(
        name="How long a client waits to read its own write, over time",
        note="from the request until the write is known to be applied everywhere",
        view="stale_window_over_time",
        where="metric = 'read_after_write' AND variant <> 'finest_evidence'",
    ),
)
