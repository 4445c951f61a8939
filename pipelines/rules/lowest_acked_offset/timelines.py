"""lowest_acked_offset over time."""

from kip_replay.pipelines.report.timeline import PERCENTILES, Timeline

TIMELINES = (
    Timeline(
        name="How long brokers show metadata from before a write, over time",
        note="from the response to a write until every broker had applied it",
        y_name="ms",
        view="stale_window_over_time",
        where="metric = 'stale_window' AND variant <> 'finest_evidence'",
        figures=PERCENTILES,
    ),
    Timeline(
        name="How long a client waits to read its own write, over time",
        note="from the request until the write is known to be applied everywhere",
        y_name="ms",
        view="stale_window_over_time",
        where="metric = 'read_after_write' AND variant <> 'finest_evidence'",
        figures=PERCENTILES,
    ),
)
