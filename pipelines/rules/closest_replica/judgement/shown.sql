-- Bytes of the same traffic, and the delay that the closest replica adds. delay_unmoved: how much longer
-- the other records took in one recording than in the other, which is drift between two runs.
WITH bytes AS (
    SELECT predicted_from, recorded_in, own_variant, 'record_bytes' AS metric,
        'client_broker' AS group_kind,
        concat_ws(' ', client_id, CAST(broker_id AS VARCHAR)) AS group_value, is_predicted,
        record_bytes, record_bytes AS all_bytes, client_id AS whole
    FROM same_traffic
    UNION ALL
    SELECT predicted_from, recorded_in, own_variant, 'cross_zone_bytes', 'topic', topic, is_predicted,
        CASE WHEN is_cross_zone THEN record_bytes ELSE 0 END, record_bytes, topic
    FROM same_traffic
),
scaled AS (
    SELECT *, sum(CASE WHEN is_predicted THEN 0 ELSE all_bytes END) OVER (
        PARTITION BY predicted_from, recorded_in, metric, whole) AS whole_bytes
    FROM bytes
)
SELECT predicted_from, recorded_in, variant, replace(metric, 'delay_p', 'added_delay_p') AS metric,
    group_kind, group_value, unit, 0 AS baseline, predicted - unchanged AS predicted,
    recorded - unchanged AS recorded, metric LIKE 'delay_p%' AS is_judged, NULL AS scale,
    sample_count, unknown_count
FROM side_by_side WHERE predicted_from <> recorded_in
UNION ALL
SELECT predicted_from, recorded_in, own_variant, metric, group_kind, group_value, 'bytes', NULL,
    sum(CASE WHEN is_predicted THEN record_bytes ELSE 0 END),
    sum(CASE WHEN is_predicted THEN 0 ELSE record_bytes END), TRUE, any_value(whole_bytes),
    count(*) FILTER (is_predicted), 0
FROM scaled
GROUP BY predicted_from, recorded_in, own_variant, metric, group_kind, group_value
