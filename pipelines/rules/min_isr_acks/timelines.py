"""min_isr_acks over time."""

from kip_replay.pipelines.page.view import Timeline

TIMELINES = (
    Timeline(
        name="How long producers wait for the response, over time",
        note="of requests with acks=all, if producers react",
        view="produce_latency_over_time",
        where="metric = 'closed_loop_latency'",
    ),
    Timeline(
        name="How long records are exposed, over time",
        note="from the early response until the whole ISR had the batch",
        view="produce_latency_over_time",
        where="metric = 'exposure'",
    ),
)
