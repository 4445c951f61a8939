"""hwm_parking over time."""

from kip_replay.pipelines.page.view import Timeline

TIMELINES = (
    Timeline(
        name="How late brokers learn of a commit, over time",
        note="of the advances of the high watermark",
        view="lag_over_time",
        where="replica_kind = 'broker'",
    ),
)
