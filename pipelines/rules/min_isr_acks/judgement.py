"""min_isr_acks: how near replayed PRODUCE responses and latencies are to real brokers."""

from __future__ import annotations

from kip_replay.pipelines.analysis.accuracy import Judgement, Tolerance
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, RULE
from kip_replay.replay.outcomes import RECORDED, Verdict

#: A replayed response this near the recorded one counts as right.
NEAR_MS = 2
#: Percentiles of fewer PRODUCEs than this say little.
FEW = 30

# A self-check replays acks=all. What acks=min.insync.replicas costs another recording can tell if
# its ISR is no larger than min.insync.replicas: there acks=all waits for just as many. A self-check
# needs no ISR: where none is known, its responses are misses.
_WANTED = f"""
WITH isr AS (
    SELECT recording, avg((len(isr) <= min_insync_replicas)::INT) > 0.9 AS is_minimal
    FROM produce_ack_outcomes WHERE parameter = 'none' AND acks = -1 AND isr IS NOT NULL
    GROUP BY recording
)
SELECT predicted_from, recorded_in,
       CASE WHEN predicted_from = recorded_in THEN '{ACKS_ALL}'
       ELSE '{ACKS_MIN_INSYNC_REPLICAS}' END AS own_variant
FROM pairs
LEFT JOIN isr AS one ON one.recording = predicted_from
LEFT JOIN isr AS other ON other.recording = recorded_in
WHERE predicted_from = recorded_in OR (NOT one.is_minimal AND other.is_minimal)"""

# PRODUCEs a second per leader, from first to last, are the recorded ones under every variant: the
# open loop's caveat.
_MEASURES = f"""
SELECT recording, variant, metric, group_kind, group_value, unit, value,
       sample_count, unknown_count
FROM percentiles
WHERE rule = '{RULE}' AND parameter = 'none'
    AND metric IN ('produce_latency_p50', 'produce_latency_p90')
    AND group_kind IN ('all', 'node_id', 'topic_partition')
UNION ALL BY NAME
SELECT recording, unnest(['{RECORDED}', '{ACKS_ALL}', '{ACKS_MIN_INSYNC_REPLICAS}']) AS variant,
       'produces_per_second' AS metric, 'node_id' AS group_kind, node_id::VARCHAR AS group_value,
       '1/s' AS unit, sample_count * 1e6 / nullif(span_us, 0) AS value,
       sample_count, 0 AS unknown_count
FROM (
    SELECT recording, node_id, count(DISTINCT request_id) AS sample_count,
           max(epoch_us(received_at)) - min(epoch_us(received_at)) AS span_us
    FROM produce_ack_outcomes
    WHERE parameter = 'none' AND verdict <> '{Verdict.NOT_APPLICABLE}' GROUP BY ALL
)"""

# Responses to acks=all that come out at the recorded time, and with its error, over the whole
# recording. The log says in which handler a follower's progress was noted and not when in it, so
# the time is an estimate between two bounds: how many recorded responses lie in them is a share
# too.
_SHARES = f"""
WITH answered AS (
    SELECT recording, verdict = '{Verdict.REPLAYED}' AS known,
           known AND acks_all_error = recorded_error AS same,
           known AND abs(request_acks_all_latency_ms - request_recorded_latency_ms) <= {NEAR_MS}
               AS near,
           known AND request_recorded_latency_ms
               BETWEEN request_acks_all_latency_earliest_ms - {NEAR_MS}
               AND request_acks_all_latency_latest_ms + {NEAR_MS} AS between_bounds
    FROM produce_ack_outcomes
    WHERE parameter = 'none' AND acks = -1 AND recorded_error IS NOT NULL
        AND verdict <> '{Verdict.NOT_APPLICABLE}'
),
counted AS (
    SELECT recording, count(*) AS sample_count, count(*) FILTER (NOT known) AS unknown_count,
           count(*) FILTER (near) / count(*) AS answers_within_2_ms,
           count(*) FILTER (between_bounds) / count(*) AS answers_within_2_ms_of_bounds,
           count(*) FILTER (same) / count(*) AS answers_with_the_recorded_error
    FROM answered GROUP BY recording
)
SELECT recording, metric, value, sample_count, unknown_count
FROM counted UNPIVOT INCLUDE NULLS (value FOR metric IN (
    answers_within_2_ms, answers_within_2_ms_of_bounds, answers_with_the_recorded_error))"""

# Partitions with few PRODUCEs are left out, those with unknown outcomes counted; single ones are
# judged across recordings only. The baseline of another cluster: that producers wait as long there.
_SHOWN = f"""
SELECT * REPLACE (
    group_kind <> 'topic_partition' OR predicted_from <> recorded_in AS is_judged,
    CASE WHEN predicted_from <> recorded_in AND unit = 'ms' THEN unchanged END AS baseline)
FROM side_by_side
WHERE group_kind <> 'topic_partition' OR sample_count + unknown_count >= {FEW}"""

JUDGEMENT = Judgement(
    wanted=_WANTED,
    measures=_MEASURES,
    shares=_SHARES,
    shown=_SHOWN,
    tolerances=(
        Tolerance("answers_within_2_ms", ACKS_ALL, True, 0.02, None),
        Tolerance("answers_within_2_ms_of_bounds", ACKS_ALL, True, 0.02, None),
        Tolerance("answers_with_the_recorded_error", ACKS_ALL, True, 0.02, None),
        *(
            Tolerance(f"produce_latency_{p}", variant, variant == ACKS_ALL, 1.0, relative)
            for variant, relative in ((ACKS_ALL, 0.10), (ACKS_MIN_INSYNC_REPLICAS, 0.20))
            for p in ("p50", "p90")
        ),
    ),
)
