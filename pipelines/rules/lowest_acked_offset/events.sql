-- name: events
-- What all nodes of a cluster log, as the rule reads it: recording, INPUT_SCHEMA. What a kind of event
-- does not have is null. When replicas learned of commits is an outcome of hwm_parking.
CREATE TEMP MACRO sum_of(counts) AS CAST(coalesce(list_sum(counts), 0) AS BIGINT);
WITH writes AS (
    SELECT *, coalesce(list_filter(resources, lambda r: r.error_code = 0), []) AS granted
    FROM metadata_writes WHERE completed_at > $since_at AND received_at <= $until_at
),
written AS (
    SELECT recording, api_name, received_at, built_at, explode(resources) AS topic
    FROM metadata_writes
    WHERE api_name IN ('CREATE_TOPICS', 'CREATE_PARTITIONS', 'DELETE_TOPICS')
        AND completed_at > $since_at - INTERVAL 60 SECOND AND received_at <= $until_at
),
-- Topics that were created with the brokers' default.replication.factor, which is in no line.
unsized AS (
    SELECT recording, topic.name AS topic, unix_micros(built_at) AS built_us FROM written
    WHERE api_name = 'CREATE_TOPICS' AND topic.error_code = 0 AND topic.replicas IS NULL
),
-- Topics that were deleted by id alone, or may have been, as the response is missing.
hidden AS (
    SELECT DISTINCT t.recording, t.topic, received_at
    FROM written AS w JOIN topics AS t ON t.recording = w.recording
        AND (t.topic_id = w.topic.name OR w.topic.error_code IS NULL AND t.topic = w.topic.name)
    WHERE api_name = 'DELETE_TOPICS' AND (t.topic <> w.topic.name OR w.topic.error_code IS NULL)
)
SELECT recording, unix_micros(built_at) AS at_us, 'heartbeat' AS kind, request_id, node_id,
    unix_micros(received_at) AS received_us, unix_micros(dequeued_at) AS dequeued_us,
    unix_micros(handled_at) AS handled_us, error_code, connection, broker_id, broker_epoch,
    current_metadata_offset AS "offset", want_fence, want_shut_down, is_fenced, response_bytes
FROM broker_heartbeats WHERE completed_at > $since_at AND received_at <= $until_at
UNION ALL BY NAME
-- Writes to the metadata log, on the controller and at the broker that forwards them.
SELECT recording, unix_micros(built_at) AS at_us, 'write' AS kind, request_id, node_id,
    unix_micros(received_at) AS received_us, unix_micros(dequeued_at) AS dequeued_us,
    unix_micros(handled_at) AS handled_us, error_code, connection, client_id, correlation_id,
    api_name, is_forwarded, validate_only, size(granted) AS written,
    sum_of(list_transform(granted, lambda r: coalesce(r.partitions, 0))) AS partitions,
    list_transform(granted, lambda r: coalesce(r.name, '')) AS topics,
    list_transform(granted, lambda r: coalesce(r.replicas, 0)) AS replicas,
    list_transform(granted, lambda r: coalesce(r.partitions, 0)) AS sizes,
    sum_of(list_transform(granted, lambda r: coalesce(r.configs, 0))) AS configs
FROM writes
UNION ALL BY NAME
-- Raft FETCHes of the metadata log, also those that were turned away.
SELECT recording, built_us AS at_us, 'fetch' AS kind, request_id, node_id, received_us, dequeued_us,
    leader_epoch, last_fetched_epoch, high_watermark, error_code, response_high_watermark,
    correlation_id, replica_id AS broker_id, fetch_offset AS "offset",
    is_diverging OR is_snapshot AS is_diverging
FROM hwm_parking_events
UNION ALL BY NAME
-- Topics as METADATA of brokers has them soon after they were written; error 3: it has none.
SELECT DISTINCT t.recording, unix_micros(t.built_at) AS at_us, 'metadata' AS kind,
    concat_ws('/', t.request_id, t.topic) AS request_id, t.node_id, 0 AS error_code,
    t.node_id AS broker_id, [t.topic] AS topics, [coalesce(t.partitions, 0)] AS sizes
FROM topics AS t JOIN written AS w ON w.recording = t.recording AND w.topic.name = t.topic
    AND t.built_at >= w.received_at AND t.built_at < w.received_at + INTERVAL 60 SECOND
ANTI JOIN hidden AS h ON h.recording = t.recording AND h.topic = t.topic
    AND h.received_at <= t.built_at
WHERE t.source = 'METADATA' AND (t.error_code = 3 OR t.partitions > 0)
    AND t.built_at > $since_at AND t.built_at <= $until_at
UNION ALL BY NAME
-- Offsets of metadata images, as API_VERSIONS returns them.
SELECT recording, unix_micros(built_at) AS at_us, 'api_versions' AS kind, request_id, node_id,
    unix_micros(dequeued_at) AS dequeued_us, 0 AS error_code, subject_id AS broker_id,
    metadata_offset AS "offset"
FROM metadata_offsets
WHERE kind = 'finalized_features_epoch' AND built_at > $since_at AND built_at <= $until_at
UNION ALL BY NAME
-- Brokers that the first METADATA name, is_fenced where they may have been so when the log began, and
-- the replicas of topics that there were.
SELECT recording, unix_micros(min(held_from)) AS at_us, 'held' AS kind,
    concat_ws('/', 'broker', replica) AS request_id, -1 AS node_id, 0 AS error_code,
    replica AS broker_id, NOT bool_or(coalesce(array_contains(isr, replica), FALSE)) AS is_fenced
FROM (SELECT recording, held_from, isr, explode(replicas) AS replica FROM held_partitions)
GROUP BY recording, replica
HAVING min(held_from) > $since_at AND min(held_from) <= $until_at
UNION ALL BY NAME
SELECT recording, unix_micros(min(held_from)) AS at_us, 'held' AS kind,
    concat_ws('/', 'topic', topic) AS request_id, -1 AS node_id, 0 AS error_code,
    -1 AS broker_id, [topic] AS topics, [CAST(sum(size(replicas)) AS BIGINT)] AS replicas
FROM held_partitions WHERE partition >= 0
GROUP BY recording, topic
HAVING min(held_from) > $since_at AND min(held_from) <= $until_at
UNION ALL BY NAME
-- METADATA soon shows on how many brokers they are, before the write is looked at.
SELECT u.recording, min(unix_micros(c.built_at)) AS at_us, 'held' AS kind,
    concat_ws('/', 'topic', u.topic, built_us) AS request_id, -1 AS node_id, 0 AS error_code,
    -1 AS broker_id, [u.topic] AS topics, [count(DISTINCT partition) * max(size(replicas))] AS replicas
FROM unsized AS u JOIN isr_changes AS c ON c.recording = u.recording AND c.topic = u.topic
    AND source = 'METADATA' AND unix_micros(c.built_at) >= built_us
    AND unix_micros(c.built_at) < built_us + 10000000
WHERE size(replicas) > 0 AND c.built_at > $since_at AND c.built_at <= $until_at
GROUP BY u.recording, u.topic, built_us
UNION ALL BY NAME
-- When replicas learned of an advance of the high watermark, recorded and replayed.
SELECT recording, unix_micros(learned_at) AS at_us, 'learned' AS kind,
    concat_ws('/', variant, leader_id, leader_epoch, replica_id, high_watermark) AS request_id,
    leader_id AS node_id, high_watermark, variant, 0 AS error_code, replica_id AS broker_id
FROM high_watermark_lag
WHERE parameter = 'none' AND learned_at > $since_at AND learned_at <= $until_at
-- name: dependencies
-- What outcomes up to a time follow from besides the log up to it: when replicas learned of commits.
-- hwm_parking emits its lags later than that, and those of a former leader when the log is closed.
-- Once emitted they stay: high_watermark_lag has those that were since.
SELECT leader_id, leader_epoch, variant, count(*) AS learned FROM high_watermark_lag
WHERE parameter = 'none' AND unix_micros(learned_at) <= $until_us
GROUP BY ALL ORDER BY leader_id, leader_epoch, variant
