-- Bytes of the same traffic; and of all that crosses zones, a second.
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
SELECT predicted_from, recorded_in, own_variant AS variant, metric, group_kind, group_value,
    'bytes' AS unit, NULL AS baseline, sum(CASE WHEN is_predicted THEN record_bytes ELSE 0 END) AS predicted,
    sum(CASE WHEN is_predicted THEN 0 ELSE record_bytes END) AS recorded, TRUE AS is_judged,
    any_value(whole_bytes) AS scale, count(*) FILTER (is_predicted) AS sample_count,
    0 AS unknown_count
FROM scaled
GROUP BY predicted_from, recorded_in, own_variant, metric, group_kind, group_value
UNION ALL BY NAME
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit,
    unchanged AS baseline, predicted, recorded, is_judged, sample_count, unknown_count
FROM side_by_side
