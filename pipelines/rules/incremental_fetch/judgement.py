"""incremental_fetch: how near partitions and bytes per FETCH are to real brokers."""

from kip_replay.pipelines.analysis.accuracy import Judgement, Tolerance, distribution
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL
from kip_replay.replay.outcomes import RECORDED, Verdict

#: FETCHes whose client requests the same partitions as before: bursts of new ones come when an
#: application happens to begin, not when the protocol says so.
SAME_SET = "same_set_"

# Brokers ran sessions if some recorded FETCH is not full. Two recordings of one protocol show how
# much two runs differ, and predict nothing: they are left out.
_WANTED = f"""
WITH own AS (
    SELECT recording, CASE WHEN bool_or(NOT is_full) THEN '{INCREMENTAL}' ELSE '{FULL}' END
               AS variant
    FROM fetch_session_outcomes WHERE variant = '{RECORDED}' AND parameter = 'none'
    GROUP BY recording
)
SELECT predicted_from, recorded_in, own.variant AS own_variant
FROM pairs
JOIN own ON own.recording = recorded_in
JOIN own AS ran ON ran.recording = predicted_from
WHERE predicted_from = recorded_in OR ran.variant <> own.variant"""

# In the steady phase, by kind of client. Of an unknown outcome no partitions and bytes count.
_MEASURES = f"""
WITH fetches AS (
    SELECT recording, variant, client_kind AS group_value, verdict = '{Verdict.REPLAYED}' AS known,
           CASE WHEN known THEN request_partitions END AS request_partitions,
           CASE WHEN known THEN response_partitions END AS response_partitions,
           added_partitions = 0 AND coalesce(forgotten_partitions, 0) = 0 AS same_set,
           count(*) AS occurs, sum(request_bytes + coalesce(response_bytes, 0)) AS bytes
    FROM fetch_session_outcomes JOIN phases USING (recording)
    WHERE parameter = 'none' AND verdict <> '{Verdict.NOT_APPLICABLE}'
        AND is_steady(dequeued_at)
    GROUP BY ALL
),
both_ways AS (
    FROM fetches UNPIVOT INCLUDE NULLS (
        value FOR counted IN (request_partitions, response_partitions))
),
histogram AS (
    SELECT recording, variant, group_value, counted, value, sum(occurs) AS occurs
    FROM both_ways GROUP BY ALL
    UNION ALL
    SELECT recording, variant, group_value, '{SAME_SET}' || counted, value, sum(occurs)
    FROM both_ways WHERE same_set GROUP BY ALL
),
figures AS (
    FROM ({distribution("histogram", "recording, variant, group_value, counted")})
    UNPIVOT INCLUDE NULLS (value FOR figure IN (mean, p50, p90))
)
SELECT recording, variant, counted || '_' || figure AS metric, 'client_kind' AS group_kind,
       group_value, 'partitions' AS unit, value,
       sample_count, unknown_count
FROM figures
UNION ALL BY NAME
SELECT recording, variant, 'fetch_bytes' AS metric, 'client_kind' AS group_kind,
       group_value, 'bytes' AS unit, coalesce(sum(occurs) FILTER (known), 0) AS sample_count,
       coalesce(sum(occurs) FILTER (NOT known), 0) AS unknown_count,
       sum(bytes) FILTER (known) / sum(occurs) FILTER (known) AS value
FROM fetches GROUP BY ALL"""

# Recorded incremental FETCHes that come out the same, lists and bytes; over the whole recording.
_SHARES = f"""
SELECT recording, 'fetches_as_recorded' AS metric, count(*) AS sample_count,
       count(*) FILTER (equals_recorded) / count(*) AS value,
       count(*) FILTER (verdict = '{Verdict.UNKNOWN}') AS unknown_count
FROM fetch_session_outcomes
WHERE variant = '{INCREMENTAL}' AND parameter = 'none'
    AND (equals_recorded IS NOT NULL OR verdict = '{Verdict.UNKNOWN}')
GROUP BY recording"""

# The baseline of another cluster: that nothing changes.
_SHOWN = """
SELECT * REPLACE (CASE WHEN predicted_from <> recorded_in THEN unchanged END AS baseline)
FROM side_by_side"""

JUDGEMENT = Judgement(
    wanted=_WANTED,
    measures=_MEASURES,
    shares=_SHARES,
    shown=_SHOWN,
    tolerances=(
        Tolerance("fetches_as_recorded", INCREMENTAL, True, 0.0, None),
        *(
            Tolerance(f"{of}{counted}_{figure}", variant, self_check, None, relative)
            for of in ("", SAME_SET)
            for counted in ("request_partitions", "response_partitions")
            for figure in ("mean", "p90")
            for variant in (INCREMENTAL, FULL)
            for self_check, relative in ((True, 0.0), (False, 0.10))
        ),
        *(Tolerance("fetch_bytes", variant, True, None, 0.0) for variant in (INCREMENTAL, FULL)),
    ),
)
