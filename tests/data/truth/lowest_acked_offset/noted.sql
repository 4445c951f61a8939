-- When a broker had applied an offset, as estimated and proved, beside when it noted that: of the
-- first offset from there on that it noted.
WITH stated AS (
    SELECT recording, broker_id, metadata_offset, applied_at, verdict, 'estimated' AS evidence,
        'applied_error' AS error_of
    FROM applied_offsets WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
    UNION ALL BY NAME
    SELECT recording, broker_id, offset_high AS metadata_offset, applied_at, v.verdict, evidence,
        'applied_error_of_writes' AS error_of, applied_at_latest
    FROM metadata_write_visibility AS v
    JOIN metadata_write_outcomes AS w
        USING (recording, variant, parameter, parameter_value, request_id)
    WHERE offset_high IS NOT NULL
    UNION ALL BY NAME
    SELECT recording, broker_id, metadata_offset, applied_at AS own_at FROM applied_observations
),
beside AS (
    SELECT *, last_value(own_at IGNORE NULLS) OVER (
        PARTITION BY recording, broker_id ORDER BY metadata_offset DESC, own_at NULLS LAST
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS noted_at
    FROM stated
)
SELECT * FROM beside WHERE noted_at IS NOT NULL AND error_of IS NOT NULL
