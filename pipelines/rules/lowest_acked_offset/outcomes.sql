-- name: latencies
-- Values of writes that arrived in the steady phase, for latency_summary. stale_window: from the
-- controller's response until every broker had applied it (today). read_after_write: from the request
-- until the broker that forwarded it knows that. stale_window_at_any_moment: of a change committed at
-- any moment, as high_watermark_lag_at_any_moment.
WITH writes AS (
    SELECT o.*, unix_micros(received_at) AS at_us, [
        {'kind': 'all', 'value': 'all'}, {'kind': 'api_name', 'value': api_name}] AS groups
    FROM metadata_write_outcomes AS o JOIN phases ON phases.recording = o.recording
    WHERE verdict <> 'not_applicable'
        AND unix_micros(received_at) >= from_us AND unix_micros(received_at) < until_us
)
SELECT recording, rule, variant, parameter, parameter_value, 'stale_window' AS metric,
    CAST(round(stale_window_ms * 1000) AS BIGINT) AS value_us, at_us, unnest(groups) AS of_group
FROM writes
UNION ALL
SELECT recording, rule, variant, parameter, parameter_value, 'read_after_write',
    CAST(round(read_after_write_ms * 1000) AS BIGINT), at_us, unnest(groups)
FROM writes
UNION ALL
SELECT m.recording, rule, variant, parameter, parameter_value, 'stale_window_at_any_moment',
    unix_micros(shown_at) - greatest(at_us, unix_micros(committed_at)), at_us,
    {'kind': 'all', 'value': 'all'}
FROM (
    SELECT *, 47000 * moment AS at_us
    FROM (
        SELECT *, explode(range(unix_micros(coalesce(previous_learned_at, learned_at)) // 47000 + 1,
            unix_micros(learned_at) // 47000 + 1)) AS moment
        FROM shown_everywhere)) AS m
JOIN phases ON phases.recording = m.recording
WHERE at_us >= from_us AND at_us < until_us
-- name: facts
-- Metadata writes, and after how long every broker showed each that is estimated: so long a client can
-- wait today. No release has the draft, and estimates and bounds are no protocols.
SELECT recording, count(*) FILTER (variant = 'lowest_acked_offset') AS requests, FALSE AS in_use,
    FALSE AS is_mixed, count(stale_window_ms) FILTER (variant = 'estimated') AS shown_writes,
    CASE WHEN count(stale_window_ms) FILTER (variant = 'estimated') >= $samples_min
        THEN max(stale_window_ms) FILTER (variant = 'estimated') END AS longest_stale_window_ms
FROM metadata_write_outcomes WHERE parameter = 'none' GROUP BY recording
