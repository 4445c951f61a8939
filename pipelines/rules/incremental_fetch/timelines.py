"""incremental_fetch over time."""

from kip_replay.pipelines.page.view import Timeline

TIMELINES = (
    Timeline(
        name="What FETCHes of topic partitions take besides records, over time",
        note="requests and responses; a gap where the size of one is not known",
        view="fetch_bytes_over_time",
        where="true",
        figures={"": "if(sum(unknown) = 0, sum(overhead_per_second), NULL)"},
        is_rate=True,
    ),
)
