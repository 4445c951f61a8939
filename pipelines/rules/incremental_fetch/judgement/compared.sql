-- FETCHes of topic partitions under each variant; is_known: what it takes is known there, with
-- sessions and without, so that sums of variants are of the same FETCHes. is_older: nor can it be.
WITH unknown AS (
    SELECT recording, request_id, bool_or(reason = $began_before_log) AS is_older
    FROM fetch_session_outcomes
    WHERE parameter = 'none' AND verdict = 'unknown' AND variant IN ('full', 'incremental') GROUP BY ALL
)
SELECT o.*, verdict <> 'unknown' AND unknown.request_id IS NULL AS is_known,
    coalesce(is_older, FALSE) AS is_older
FROM fetch_session_outcomes AS o LEFT JOIN unknown
ON unknown.recording = o.recording AND unknown.request_id = o.request_id
WHERE verdict <> 'not_applicable'
