-- FETCHes of topic partitions under each variant; is_known: what it takes is known there, with
-- sessions and without, so that sums of variants are of the same FETCHes.
WITH unknown AS (
    SELECT DISTINCT recording, request_id FROM fetch_session_outcomes
    WHERE parameter = 'none' AND verdict = 'unknown' AND variant IN ('full', 'incremental')
)
SELECT o.*, verdict <> 'unknown' AND unknown.request_id IS NULL AS is_known
FROM fetch_session_outcomes AS o LEFT JOIN unknown
ON unknown.recording = o.recording AND unknown.request_id = o.request_id
WHERE verdict <> 'not_applicable'
