-- name: latencies
-- Values of the steady phase for latency_summary. high_watermark_lag: of each advance and replica that
-- was not away; of_changes: of those that are certainly more than a NoOpRecord. fetch_parked: of each
-- FETCH that was parked. high_watermark_lag_at_any_moment: of a change committed at any moment, each
-- 47 ms (no part of the 500 ms between NoOpRecords, so that they lie everywhere between these). A
-- replica learns of it when it next learns of any advance; under KIP-1166 as late as of that.
WITH lags AS (
    SELECT *, unix_micros(leader_at) AS leader_us, [
        {'kind': 'all', 'value': 'all'},
        {'kind': 'replica_kind', 'value': CASE WHEN is_voter THEN 'voter' ELSE 'broker' END},
        {'kind': 'replica_id', 'value': CAST(replica_id AS VARCHAR)}] AS groups
    FROM high_watermark_lag WHERE verdict <> 'not_applicable'
)
SELECT recording, rule, variant, parameter, parameter_value, 'high_watermark_lag' AS metric,
    CAST(round(lag_ms * 1000) AS BIGINT) AS value_us, leader_us AS at_us, unnest(groups) AS of_group
FROM lags WHERE phase = 'steady'
UNION ALL
SELECT recording, rule, variant, parameter, parameter_value, 'high_watermark_lag_of_changes',
    CAST(round(lag_ms * 1000) AS BIGINT), leader_us, unnest(groups)
FROM lags WHERE phase = 'steady' AND is_change AND parameter = 'none'
UNION ALL
SELECT m.recording, rule, variant, parameter, parameter_value, 'high_watermark_lag_at_any_moment',
    unix_micros(learned_at) - CASE WHEN is_hwm_aware THEN greatest(at_us, leader_us) ELSE at_us END,
    at_us, unnest(groups)
FROM (
    SELECT *, 47000 * moment AS at_us
    FROM (
        SELECT *, explode(range(unix_micros(coalesce(previous_learned_at, leader_at)) // 47000 + 1,
            unix_micros(coalesce(learned_at, leader_at)) // 47000 + 1)) AS moment
        FROM lags WHERE parameter = 'none')) AS m
JOIN phases ON phases.recording = m.recording
WHERE at_us >= from_us AND at_us < until_us
UNION ALL
SELECT o.recording, rule, variant, parameter, parameter_value, 'fetch_parked',
    CAST(round(parked_ms * 1000) AS BIGINT), unix_micros(dequeued_at),
    unnest([
        {'kind': 'all', 'value': 'all'},
        {'kind': 'replica_kind', 'value': CASE WHEN is_voter THEN 'voter' ELSE 'broker' END},
        {'kind': 'completion', 'value': completion}])
FROM fetch_parking_outcomes AS o JOIN phases ON phases.recording = o.recording
WHERE verdict <> 'not_applicable' AND decision = 'parked'
    AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
-- name: bandwidth
-- FETCHes for bandwidth_summary. One that is unknown was sent all the same, and has no size. Of one
-- beside a gap only how long it waited is unknown.
SELECT recording, rule, variant, parameter, parameter_value, leader_id AS node_id, dequeued_at,
    built_at, CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS client_kind,
    1 AS request_partitions, 1 AS response_partitions, record_bytes,
    CASE WHEN verdict <> 'unknown' OR reason = $log_gap THEN request_bytes END AS request_bytes,
    CASE WHEN verdict <> 'unknown' OR reason = $log_gap THEN response_bytes END AS response_bytes
FROM fetch_parking_outcomes WHERE verdict <> 'not_applicable'
-- name: facts
-- FETCHes of the metadata log that a leader responded to, and whether their senders ran KIP-1166: with
-- it a FETCH carries the replica's high watermark. Up to 1 % either way, a cluster ran one protocol.
SELECT recording, count(*) AS requests,
    100 * count(replica_high_watermark) >= 99 * count(*) AS in_use,
    100 * count(replica_high_watermark) > count(*)
        AND 100 * count(replica_high_watermark) < 99 * count(*) AS is_mixed,
    count(*) FILTER (completion = 'unexplained') AS unexplained
FROM fetch_parking_outcomes WHERE variant = 'recorded' AND parameter = 'none' GROUP BY recording
