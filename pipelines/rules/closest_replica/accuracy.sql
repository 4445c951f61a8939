-- name: wanted
-- Brokers had a selector if a consumer was redirected, or read from a follower.
WITH ran AS (
    SELECT recording, CASE WHEN bool_or(node_id <> leader_id OR preferred_read_replica IS NOT NULL)
        THEN 'closest' ELSE 'leader' END AS variant
    FROM reads WHERE variant = 'leader' GROUP BY recording
)
SELECT predicted_from, recorded_in, own.variant AS own_variant, TRUE AS is_judged
FROM pairs
JOIN ran AS own ON own.recording = recorded_in
JOIN ran AS one ON one.recording = predicted_from
WHERE predicted_from = recorded_in OR one.variant <> own.variant
-- name: reads
-- Outcomes that brokers can be held against, where they have racks: of a client whose zone is only stated
-- they know nothing.
SELECT * FROM closest_replica_outcomes
SEMI JOIN (SELECT DISTINCT recording FROM brokers WHERE rack IS NOT NULL) AS racks USING (recording)
WHERE parameter = 'none' AND (has_rack_id OR client_zone IS NULL)
-- name: measures
-- Bytes of records a second across zones, as the headline has them; recorded: from where consumers read.
WITH sides AS (
    SELECT recording, variant, is_cross_zone, record_bytes, dequeued_at, built_at FROM reads
    UNION ALL
    SELECT r.recording, 'recorded', rack <> client_zone, record_bytes, dequeued_at, built_at
    FROM reads AS r LEFT JOIN broker_racks AS b
    ON b.recording = r.recording AND b.broker_id = node_id
    WHERE variant = 'leader'
)
SELECT sides.recording, variant, 'bytes_per_second' AS metric, 'client_kind' AS group_kind,
    'other zone' AS group_value, 'B/s' AS unit, sum(CASE WHEN is_cross_zone THEN record_bytes
        WHEN NOT is_cross_zone THEN 0 END) * 1e6 / max(until_us - from_us) AS value, NULL AS baseline,
    count(is_cross_zone) AS sample_count, count(*) - count(is_cross_zone) AS unknown_count
FROM sides JOIN phases ON phases.recording = sides.recording
WHERE record_bytes > 0 AND unix_micros(dequeued_at) >= from_us AND unix_micros(built_at) < until_us
GROUP BY sides.recording, variant
-- name: shares
-- Of sessions no older than the log: reads and redirects that come out as recorded; of those from
-- followers, responses that were not built before the follower could give the record (stamps of two logs
-- leave 2 ms open); of those that waited, responses near the estimate.
WITH mine AS (
    SELECT reads.*, record_bytes > 0 AS is_read
    FROM reads JOIN wanted ON recording = predicted_from AND recording = recorded_in
        AND variant = own_variant
    WHERE reason IS DISTINCT FROM $older
)
SELECT recording, metric, 'all' AS group_kind, 'all' AS group_value,
    count(*) FILTER (holds) / count(*) AS value, count(*) FILTER (holds IS NOT NULL) AS sample_count,
    count(*) FILTER (holds IS NULL) AS unknown_count
FROM (
    SELECT recording, 'reads_as_recorded' AS metric, replica_id = node_id AS holds
    FROM mine WHERE is_read
    UNION ALL
    SELECT recording, 'redirects_as_recorded', replica_id = preferred_read_replica
    FROM mine WHERE preferred_read_replica IS NOT NULL
    UNION ALL
    SELECT recording, 'given_no_sooner', unix_micros(built_at) + 2000 >= unix_micros(given_at_earliest)
    FROM mine WHERE is_read AND node_id <> leader_id AND replica_id = node_id
    UNION ALL
    SELECT recording, 'given_within_10_ms',
        abs(unix_micros(built_at) - unix_micros(given_at)) <= 10000
    FROM mine WHERE is_read AND is_awaited AND replica_id = node_id
)
GROUP BY recording, metric
-- name: same_traffic
-- Bytes of records that both of a pair served of the same partitions with the same leader, by client,
-- topic and broker: as predicted from one, and as the other recorded.
WITH spans AS (
    SELECT recording, client_id, topic, partition, any_value(leader_id) AS leader_id,
        min(leader_id) = max(leader_id) AS has_one, min(fetch_offset) AS first_offset,
        max(fetch_offset) AS last_offset
    FROM reads WHERE variant = 'leader' AND record_bytes > 0
    GROUP BY recording, client_id, topic, partition
),
shared AS (
    SELECT wanted.*, one.client_id, one.topic, one.partition,
        greatest(one.first_offset, other.first_offset) AS from_offset,
        least(one.last_offset, other.last_offset) AS until_offset
    FROM wanted
    JOIN spans AS one ON one.recording = predicted_from
    JOIN spans AS other ON other.recording = recorded_in AND other.client_id = one.client_id
        AND other.topic = one.topic AND other.partition = one.partition
        AND other.leader_id = one.leader_id
    WHERE predicted_from <> recorded_in AND one.has_one AND other.has_one
)
SELECT s.predicted_from, s.recorded_in, s.own_variant, r.client_id, r.topic,
    CASE WHEN is_predicted THEN r.replica_id ELSE r.node_id END AS broker_id,
    is_predicted, r.record_bytes, r.is_cross_zone
FROM (SELECT *, unnest([TRUE, FALSE]) AS is_predicted FROM shared) AS s
JOIN reads AS r ON r.client_id = s.client_id AND r.topic = s.topic AND r.partition = s.partition
    AND r.recording = CASE WHEN is_predicted THEN s.predicted_from ELSE s.recorded_in END
    AND r.variant = s.own_variant
    AND r.fetch_offset >= from_offset AND r.fetch_offset < until_offset
-- name: shown
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
