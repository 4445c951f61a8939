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
