-- Bytes of records a second across zones, as the headline has them; recorded: from where consumers read.
WITH racks AS (
    SELECT recording, broker_id, min(rack) AS rack FROM brokers GROUP BY recording, broker_id
),
sides AS (
    SELECT recording, variant, is_cross_zone, record_bytes, dequeued_at, built_at FROM reads
    UNION ALL
    SELECT r.recording, 'recorded', rack <> client_zone, record_bytes, dequeued_at, built_at
    FROM reads AS r LEFT JOIN racks ON racks.recording = r.recording AND broker_id = node_id
    WHERE variant = 'leader'
)
SELECT sides.recording, variant, 'bytes_per_second' AS metric, 'client_kind' AS group_kind,
    'other zone' AS group_value, 'B/s' AS unit, sum(CASE WHEN is_cross_zone THEN record_bytes
        WHEN NOT is_cross_zone THEN 0 END) * 1e6 / max(until_us - from_us) AS value, NULL AS baseline,
    count(is_cross_zone) AS sample_count, count(*) - count(is_cross_zone) AS unknown_count
FROM sides JOIN phases ON phases.recording = sides.recording
WHERE record_bytes > 0 AND unix_micros(dequeued_at) >= from_us AND unix_micros(built_at) < until_us
GROUP BY sides.recording, variant
