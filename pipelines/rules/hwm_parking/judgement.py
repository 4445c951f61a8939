"""hwm_parking: how near lags, FETCHes a second and explained responses are to real brokers."""

from kip_replay.pipelines.analysis.accuracy import Judgement, Tolerance
from kip_replay.replay.hwm_parking import RULE, WITH_KIP, WITHOUT_KIP, Completion
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.phases import STEADY

# The brokers of a recording ran the KIP if their FETCHes carry a high watermark. Two recordings of
# one protocol show how much two runs differ, and predict nothing: they are not judged.
_WANTED = f"""
WITH own AS (
    SELECT recording, CASE WHEN bool_or(replica_high_watermark IS NOT NULL) THEN '{WITH_KIP}'
                      ELSE '{WITHOUT_KIP}' END AS variant
    FROM fetch_parking_outcomes WHERE variant = '{RECORDED}' GROUP BY recording
)
SELECT predicted_from, recorded_in, own.variant AS own_variant,
       predicted_from = recorded_in OR ran.variant <> own.variant AS is_judged
FROM pairs
JOIN own ON own.recording = recorded_in
LEFT JOIN own AS ran ON ran.recording = predicted_from"""

# Baseline of the lag: parked for a random part of 500 ms without the KIP, not at all with it. Of
# FETCHes: one for each replica and advance of the high watermark, two with the KIP. A FETCH
# that no rule explains is predicted with another completion, so those of a completion leave it out.
_MEASURES = f"""
WITH advances AS (
    SELECT recording, variant, count(DISTINCT replica_id) AS replicas,
           count(DISTINCT (leader_id, leader_epoch, high_watermark)) AS advances
    FROM high_watermark_lag WHERE parameter = 'none' AND phase = '{STEADY}' GROUP BY ALL
),
fetches AS (
    SELECT recording, variant, replica_id, completion, (until_us - from_us) / 1e6 AS span_s,
           CASE variant WHEN '{WITHOUT_KIP}' THEN 1 WHEN '{WITH_KIP}' THEN 2 END * advances
               AS per_replica,
           per_replica * replicas / span_s AS per_second, count(*) AS fetches,
           sum(coalesce(request_bytes, 0) + coalesce(response_bytes, 0)) AS bytes
    FROM fetch_parking_outcomes JOIN phases USING (recording)
    LEFT JOIN advances USING (recording, variant)
    WHERE parameter = 'none' AND verdict = '{Verdict.REPLAYED}' AND is_steady(dequeued_at)
    GROUP BY ALL
),
rates AS (
    SELECT recording, variant, 'all' AS group_kind, 'all' AS group_value, span_s, per_second,
           sum(fetches) AS sample_count, sum(bytes) AS bytes, 0 AS unknown_count
    FROM fetches GROUP BY ALL
),
counts AS (
    SELECT recording, variant, per_replica, replica_id, completion, sum(fetches) AS sample_count
    FROM fetches
    GROUP BY GROUPING SETS ((recording, variant, replica_id, per_replica),
                            (recording, variant, completion))
)
SELECT recording, variant, metric, group_kind, group_value, unit, value,
       CASE variant WHEN '{WITH_KIP}' THEN 0 WHEN '{WITHOUT_KIP}' THEN CASE metric
           WHEN 'high_watermark_lag_p50' THEN 250
           WHEN 'high_watermark_lag_p90' THEN 450
           WHEN 'high_watermark_lag_p99' THEN 495 END END AS baseline,
       sample_count, unknown_count
FROM percentiles
WHERE rule = '{RULE}' AND parameter = 'none'
    AND metric LIKE 'high_watermark_lag_p%' AND group_kind = 'replica_kind'
UNION ALL BY NAME
SELECT * EXCLUDE (span_s, per_second, bytes), 'fetches_per_second' AS metric, '1/s' AS unit,
       sample_count / span_s AS value, per_second AS baseline
FROM rates
UNION ALL BY NAME
SELECT * EXCLUDE (span_s, per_second, bytes), 'fetch_bytes_per_second' AS metric,
       'bytes/s' AS unit, bytes / span_s AS value
FROM rates
UNION ALL BY NAME
SELECT recording, variant, 'fetches' AS metric, 'count' AS unit,
       CASE WHEN completion IS NULL THEN 'replica_id' ELSE 'completion' END AS group_kind,
       coalesce(completion, replica_id::VARCHAR) AS group_value,
       sample_count AS value, per_replica AS baseline, sample_count, 0 AS unknown_count
FROM counts WHERE completion IS DISTINCT FROM '{Completion.UNEXPLAINED.value}'"""

# The open-loop check: the share of a leader's responses that the rule explains.
_EXPLAINED = f"(verdict = '{Verdict.REPLAYED}' AND completion <> '{Completion.UNEXPLAINED.value}')"
_SHARES = f"""
SELECT recording, 'answers_explained' AS metric,
       count(*) FILTER ({_EXPLAINED}) / count(*) AS value, count(*) AS sample_count,
       count(*) FILTER (verdict = '{Verdict.UNKNOWN}') AS unknown_count
FROM fetch_parking_outcomes
WHERE variant = '{RECORDED}' AND verdict <> '{Verdict.NOT_APPLICABLE}' GROUP BY recording"""

# Voters are shown and not judged. One FETCH more of a rare completion is no large error: it is held
# against all FETCHes.
_SHOWN = """
SELECT * REPLACE (
    is_judged AND group_value <> 'voter' AS is_judged,
    CASE group_kind WHEN 'completion' THEN sum(recorded) OVER (
        PARTITION BY predicted_from, recorded_in, metric, group_kind) END AS scale)
FROM side_by_side"""

JUDGEMENT = Judgement(
    wanted=_WANTED,
    of_controllers=True,
    measures=_MEASURES,
    shares=_SHARES,
    shown=_SHOWN,
    tolerances=(
        Tolerance("fetches_per_second", WITHOUT_KIP, True, None, 0.005),
        Tolerance("fetches_per_second", WITH_KIP, True, None, 0.005),
        Tolerance("fetches_per_second", WITHOUT_KIP, False, None, 0.03),
        Tolerance("fetches_per_second", WITH_KIP, False, None, 0.02),
        *(
            Tolerance(f"high_watermark_lag_{p}", kip, self_check, absolute_ms, None)
            for kip, self_check, *limits in (
                (WITHOUT_KIP, True, 2.0, 3.0, 5.0),
                (WITH_KIP, True, 1.0, 3.0, 6.0),
                (WITHOUT_KIP, False, 10.0, 5.0, 10.0),
                (WITH_KIP, False, 1.0, 3.0, 8.0),
            )
            for p, absolute_ms in zip(("p50", "p90", "p99"), limits, strict=True)
        ),
        *(Tolerance("fetches", kip, True, None, 0.02) for kip in (WITHOUT_KIP, WITH_KIP)),
        *(
            Tolerance("answers_explained", kip, True, 0.005, None)
            for kip in (WITHOUT_KIP, WITH_KIP)
        ),
    ),
)
