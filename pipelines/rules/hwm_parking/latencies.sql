-- Values of the steady phase for latency_summary. high_watermark_lag: of each advance and replica that
-- was not away. fetch_parked: of each FETCH that was parked.
WITH lags AS (
    SELECT *, CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS replica_kind
    FROM high_watermark_lag WHERE verdict <> 'not_applicable' AND phase = 'steady'
),
parked AS (
    SELECT o.*, CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS replica_kind
    FROM fetch_parking_outcomes AS o JOIN phases ON phases.recording = o.recording
    WHERE verdict <> 'not_applicable' AND decision = 'parked'
        AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
)
SELECT recording, rule, variant, parameter, parameter_value, 'high_watermark_lag' AS metric,
    CAST(round(lag_ms * 1000) AS BIGINT) AS value_us, unix_micros(leader_at) AS at_us,
    unnest([
        {'kind': 'all', 'value': 'all'}, {'kind': 'replica_kind', 'value': replica_kind},
        {'kind': 'replica_id', 'value': CAST(replica_id AS VARCHAR)}]) AS of_group
FROM lags
UNION ALL
SELECT recording, rule, variant, parameter, parameter_value, 'fetch_parked',
    CAST(round(parked_ms * 1000) AS BIGINT), unix_micros(dequeued_at),
    unnest([
        {'kind': 'all', 'value': 'all'}, {'kind': 'replica_kind', 'value': replica_kind},
        {'kind': 'completion', 'value': completion}])
FROM parked
