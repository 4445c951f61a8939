-- name: events
-- Each leader's PRODUCEs and FETCHes, and what other nodes' lines show: recording, node_id (the
-- leader), INPUT_SCHEMA. What other nodes logged is little (what changes, not what is repeated), and
-- each goes only to the leaders whose PRODUCEs touch what it is about. Who leads what, and what topic
-- ids are called, is read of all of the log.
CREATE TEMP MACRO partition_of(
    p, record_bytes := NULL, base_offset := NULL, error_code := NULL, fetch_offset := NULL,
    is_refused := NULL, is_forgotten := NULL, leader_epoch := NULL, leader_id := NULL,
    isr := NULL, replicas := NULL
) AS {
    'topic': p.topic, 'topic_id': p.topic_id, 'partition': p.partition,
    'record_bytes': CAST(record_bytes AS BIGINT), 'base_offset': CAST(base_offset AS BIGINT),
    'error_code': CAST(error_code AS INT), 'fetch_offset': CAST(fetch_offset AS BIGINT),
    'is_refused': CAST(is_refused AS BOOLEAN), 'is_forgotten': CAST(is_forgotten AS BOOLEAN),
    'leader_epoch': CAST(leader_epoch AS INT), 'leader_id': CAST(leader_id AS INT),
    'isr': CAST(isr AS INT[]), 'replicas': CAST(replicas AS INT[])};
WITH leaders AS (SELECT DISTINCT recording, node_id FROM written_partitions),
touched AS (
    SELECT DISTINCT w.recording, w.node_id, coalesce(names.name, w.topic, w.topic_id) AS topic,
        w.partition
    FROM written_partitions AS w LEFT JOIN topic_names AS names
    ON names.recording = w.recording AND names.topic_id = coalesce(w.topic, w.topic_id)
),
topics_of AS (SELECT DISTINCT recording, node_id, topic FROM touched),

-- Idempotent: where the producer is transactional or had sent INIT_PRODUCER_ID.
idempotent AS (
    SELECT recording, client_id, host_of(connection) AS host, min(built_at) AS since_at
    FROM producer_ids WHERE error_code = 0 GROUP BY ALL
),
produced AS (
    SELECT p.*, i.since_at
    FROM (
        SELECT *, host_of(connection) AS host FROM produces
        WHERE completed_at > $since_at AND received_at <= $until_at
    ) AS p
    LEFT JOIN idempotent AS i
    ON i.recording = p.recording AND i.client_id = p.client_id AND i.host = p.host
),
fetched AS (
    SELECT f.* FROM topic_fetches AS f SEMI JOIN leaders
    ON leaders.recording = f.recording AND leaders.node_id = f.node_id
    WHERE f.completed_at > $since_at AND f.received_at <= $until_at
),
-- While lines of the active controller may be missing.
hidden AS (
    SELECT DISTINCT recording, unix_micros(uncertain_from) AS from_us,
        unix_micros(uncertain_until) AS until_us
    FROM uncertainties WHERE what = 'metadata log'
),
-- Heartbeats that say something new, and those before and after a silence.
heartbeats AS (
    SELECT *, unix_micros(dequeued_at) AS at_us,
        {'a': broker_epoch, 'b': want_shut_down, 'c': is_fenced} AS state,
        lag({'a': broker_epoch, 'b': want_shut_down, 'c': is_fenced}) OVER of_broker AS state_before,
        lag(unix_micros(dequeued_at)) OVER of_broker AS before_us,
        lead(unix_micros(dequeued_at)) OVER of_broker AS after_us
    FROM broker_heartbeats
    WHERE error_code = 0 AND completed_at > $since_at - INTERVAL 18 SECOND
        AND received_at <= $until_at + INTERVAL 18 SECOND
    WINDOW of_broker AS (PARTITION BY recording, broker_id ORDER BY dequeued_at, request_id)
),
-- Whose next heartbeat may be missing is not fenced for its silence.
unheard AS (
    SELECT DISTINCT b.recording, b.request_id FROM heartbeats AS b JOIN hidden AS h
    ON h.recording = b.recording AND from_us <= b.at_us + $fenced_us AND until_us >= b.at_us
    WHERE coalesce(b.after_us - b.at_us > $silence_us, TRUE)
),
changes AS (
    SELECT c.recording, c.request_id, c.node_id AS source_id, c.source, c.built_at, c.dequeued_at,
        coalesce(names.name, c.topic) AS topic, c.topic_id, c.partition, c.leader_id,
        c.leader_epoch, c.replicas, c.requested_isr, c.isr, coalesce(c.error_code, 0) AS error_code
    FROM isr_changes AS c LEFT JOIN topic_names AS names
    ON names.recording = c.recording AND names.topic_id = c.topic
    WHERE c.built_at > $since_at - INTERVAL 18 SECOND
        AND c.dequeued_at <= $until_at
),
-- METADATA that repeats the one before is left out if it comes sooner than two seconds after it.
shown AS (
    SELECT *, {'a': leader_id, 'b': leader_epoch, 'c': array_sort(isr), 'd': replicas} AS state,
        lag({'a': leader_id, 'b': leader_epoch, 'c': array_sort(isr), 'd': replicas}) OVER of_node
            AS state_before,
        lag(unix_micros(built_at)) OVER of_node AS before_us
    FROM changes WHERE source = 'METADATA' AND error_code = 0
    WINDOW of_node AS (
        PARTITION BY recording, source_id, topic, partition ORDER BY built_at, request_id)
),
isr_states AS (
    SELECT recording, request_id, 'isr_requested' AS kind, unix_micros(dequeued_at) AS at_us,
        CAST(NULL AS INT) AS source_id, topic, topic_id, partition, leader_id, leader_epoch,
        replicas, requested_isr AS isr
    FROM changes WHERE source = 'ALTER_PARTITION'
    UNION ALL
    SELECT recording, request_id, 'isr_committed', unix_micros(built_at), NULL, topic, topic_id,
        partition, leader_id, leader_epoch, replicas, CASE WHEN error_code = 0 THEN isr END
    FROM changes WHERE source = 'ALTER_PARTITION'
    UNION ALL
    SELECT recording, request_id, 'metadata', unix_micros(built_at), source_id, topic, topic_id,
        partition, leader_id, leader_epoch, replicas, isr
    FROM shown
    WHERE state IS DISTINCT FROM state_before OR unix_micros(built_at) - before_us >= 2000000
    UNION ALL
    -- As if a METADATA had it when the log began.
    SELECT recording, evidence_request_id, 'metadata', unix_micros(held_from), stated_by, topic,
        topic_id, partition, leader_id, leader_epoch, replicas, isr
    FROM held_partitions WHERE isr IS NOT NULL AND held_from > $since_at AND held_from <= $until_at
),
-- One event a line and leader, with the partitions of this leader.
isr_events AS (
    SELECT c.recording, t.node_id, c.request_id, c.kind, c.at_us, c.source_id,
        array_sort(list(partition_of(c, leader_epoch := c.leader_epoch, leader_id := c.leader_id,
            isr := c.isr, replicas := c.replicas))) AS partitions
    FROM isr_states AS c JOIN touched AS t
    ON t.recording = c.recording AND t.topic = c.topic AND t.partition = c.partition
    GROUP BY ALL
),
-- The brokers' default has no name; what is described without a value is the default.
configs_of AS (SELECT * FROM topics_of UNION ALL SELECT recording, node_id, '' FROM leaders),
config_events AS (
    SELECT s.recording, t.node_id, s.request_id, s.topic AS resource_name, s.operation,
        CASE WHEN NOT is_default THEN s.value END AS value, s.built_at, s.source,
        s.node_id AS source_id
    FROM stated_configs AS s JOIN configs_of AS t
    ON t.recording = s.recording AND t.topic = s.topic
    WHERE broker IN ('', CAST(t.node_id AS VARCHAR))
        AND s.built_at > $since_at AND s.built_at <= $until_at
    UNION
    -- What a gap hides may have altered it.
    SELECT h.recording, t.node_id, evidence_request_id, h.topic, 'describe',
        CAST(min_insync_replicas AS VARCHAR), held_from, 'DESCRIBE_CONFIGS', stated_by
    FROM held_partitions AS h JOIN configs_of AS t
    ON t.recording = h.recording AND t.topic = h.topic
    ANTI JOIN uncertainties AS u ON u.recording = t.recording AND u.node_id = t.node_id
        AND what = 'configs' AND shown_at > held_from AND shown_at <= stated_at
    WHERE partition = -1 AND held_from > $since_at AND held_from <= $until_at
)

SELECT recording, node_id, unix_micros(dequeued_at) AS at_us, kind_order('produce') AS kind_order,
    request_id, 'produce' AS kind, unix_micros(received_at) AS received_us,
    unix_micros(dequeued_at) AS dequeued_us, unix_micros(handled_at) AS handled_us,
    unix_micros(built_at) AS built_us, client_id, connection, acks,
    timeout_ms * CAST(1000 AS BIGINT) AS timeout_us,
    transactional_id IS NOT NULL AS is_transactional,
    CASE WHEN transactional_id IS NOT NULL OR dequeued_at >= since_at THEN TRUE END
        AS is_idempotent,
    list_transform(partitions, lambda p: partition_of(
        p, record_bytes := p.record_bytes, error_code := p.error_code,
        base_offset := CASE WHEN has_response THEN p.base_offset END)) AS partitions
FROM produced
UNION ALL BY NAME
-- Followers' FETCHes that the leader took, with what it refused to take note of.
SELECT recording, node_id, noted_us AS at_us, kind_order('fetch') AS kind_order, request_id,
    'fetch' AS kind,
    dequeued_us, handled_us, built_us, replica_id, replica_epoch,
    CAST(nullif(regexp_extract(client_id, '^broker-\d+-fetcher-(\d{1,4})$', 1), '') AS INT) AS fetcher,
    response_session_id AS session_id,
    list_transform(request_partitions, lambda p: partition_of(
        p, fetch_offset := p.fetch_offset, leader_epoch := p.current_leader_epoch,
        is_refused := is_in(p, refused))) AS partitions
FROM fetched WHERE replica_id >= 0
UNION ALL BY NAME
-- Consumers' FETCHes, with what they list and forget of their sessions.
SELECT recording, node_id, handled_us AS at_us, kind_order('consumer_fetch') AS kind_order,
    request_id, 'consumer_fetch' AS kind, built_us, min_bytes, response_session_id AS session_id,
    coalesce(session_epoch, -1) <= 0 AS is_full,
    list_concat(
        list_transform(coalesce(request_partitions, []), lambda p: partition_of(
            p, is_forgotten := FALSE)),
        list_transform(coalesce(forgotten_partitions, []), lambda p: partition_of(
            p, is_forgotten := TRUE))) AS partitions
FROM fetched WHERE replica_id = -1
UNION ALL BY NAME
-- Leaders' own FETCHes of the metadata log, as the active controller responded.
SELECT f.recording, f.replica_id AS node_id, unix_micros(f.received_at) AS at_us,
    kind_order('metadata_fetch') AS kind_order, f.request_id, 'metadata_fetch' AS kind,
    unix_micros(f.received_at) AS received_us, unix_micros(f.built_at) AS built_us,
    f.node_id AS replica_id, get(f.request_partitions, 0).fetch_offset AS fetch_offset,
    get(f.response_partitions, 0).high_watermark AS high_watermark
FROM fetches AS f SEMI JOIN leaders
ON leaders.recording = f.recording AND leaders.node_id = f.replica_id
WHERE f.is_cluster_metadata AND f.error_code = 0 AND size(f.request_partitions) > 0
    AND get(f.response_partitions, 0).error_code = 0
    AND f.completed_at > $since_at AND f.received_at <= $until_at
UNION ALL BY NAME
SELECT b.recording, l.node_id, b.at_us, kind_order('heartbeat') AS kind_order, b.request_id,
    'heartbeat' AS kind, b.at_us AS dequeued_us, unix_micros(b.built_at) AS built_us,
    b.broker_id AS replica_id, b.broker_epoch AS replica_epoch, b.want_shut_down, b.is_fenced,
    CASE WHEN u.request_id IS NULL AND coalesce(b.after_us - b.at_us > $silence_us, TRUE)
        THEN $silence END AS operation
FROM heartbeats AS b JOIN leaders AS l ON l.recording = b.recording
LEFT JOIN unheard AS u ON u.recording = b.recording AND u.request_id = b.request_id
WHERE b.state IS DISTINCT FROM b.state_before OR coalesce(b.after_us - b.at_us > $silence_us, TRUE)
    OR coalesce(b.at_us - b.before_us > $silence_us, FALSE)
UNION ALL BY NAME
-- min.insync.replicas of a leader's topics, and of the cluster. A topic is created with its configs:
-- there is nothing to wait for.
SELECT recording, node_id, unix_micros(built_at) AS at_us, kind_order('config') AS kind_order,
    concat_ws(' ', request_id, resource_name, operation) AS request_id, 'config' AS kind,
    CASE WHEN source <> 'CREATE_TOPICS' THEN unix_micros(built_at) END AS built_us,
    source_id AS replica_id, resource_name AS name, operation, value
FROM (
    SELECT * FROM config_events
    UNION ALL
    -- When the leader applies it is not in the log.
    SELECT DISTINCT c.recording, c.node_id, request_id, resource_name, $pending, NULL, built_at,
        'CREATE_TOPICS', source_id
    FROM config_events AS c JOIN hidden AS h ON h.recording = c.recording
        AND from_us <= unix_micros(built_at) + $stale_us AND until_us >= unix_micros(built_at)
    WHERE operation <> 'describe' AND source <> 'CREATE_TOPICS')
UNION ALL BY NAME
SELECT recording, node_id, unix_micros(shown_at) AS at_us, kind_order('uncertain') AS kind_order,
    concat_ws(' ', what, CAST(broker_id AS VARCHAR), CAST(gap_node_id AS VARCHAR)) AS request_id, 'uncertain' AS kind,
    unix_micros(uncertain_from) AS received_us, unix_micros(uncertain_until) AS built_us,
    broker_id AS replica_id, what AS name
FROM uncertainties
UNION ALL BY NAME
SELECT recording, node_id, at_us, kind_order(kind) AS kind_order, request_id, kind,
    source_id AS replica_id, partitions
FROM isr_events
UNION ALL BY NAME
-- Names of topic ids, before everything else: they are true at all times.
SELECT t.recording, t.node_id, -1 AS at_us, kind_order('topic') AS kind_order,
    names.topic_id AS request_id, 'topic' AS kind, names.name, names.topic_id AS value
FROM topic_names AS names JOIN topics_of AS t
ON t.recording = names.recording AND t.topic = names.name
-- name: dependencies
-- What outcomes up to a time follow from besides the log up to it. The names of topic ids; who leads
-- what, also where only a later PRODUCE shows it: a leader is fed what other nodes' lines say of
-- brokers and its partitions, which may be earlier; configs that a later line describes; which brokers
-- fall silent then, which the next heartbeat shows.
WITH named AS (
    SELECT written.node_id, written.topic, written.topic_id, written.partition, names.name
    FROM written_partitions AS written
    LEFT JOIN topic_names AS names ON names.topic_id = written.topic_id
),
led AS (
    SELECT DISTINCT node_id, unnest([topic, topic_id, name]) AS topic, partition FROM named
),
stated AS (
    SELECT DISTINCT topic, partition FROM stated_partitions WHERE stated_us <= $until_us
),
-- Who is silent for longer, was so by then already.
heartbeats AS (
    SELECT broker_id, max(unix_micros(dequeued_at)) FILTER (
            WHERE unix_micros(dequeued_at) <= $until_us) AS last_us,
        min(unix_micros(dequeued_at)) FILTER (
            WHERE unix_micros(dequeued_at) > $until_us) AS next_us
    FROM broker_heartbeats
    WHERE error_code = 0 AND dequeued_at > timestamp_micros($until_us - $silence_us)
        AND dequeued_at <= timestamp_micros($until_us + $silence_us)
    GROUP BY broker_id
)
SELECT 'name' AS what, NULL AS id, topic_id AS topic, name AS value FROM usable_names
UNION ALL
SELECT DISTINCT 'leads', node_id, NULL, NULL FROM written_partitions
UNION ALL
SELECT DISTINCT 'leads', led.node_id, led.topic, CAST(stated.partition AS VARCHAR)
FROM led JOIN stated
ON led.topic = stated.topic AND led.partition = coalesce(stated.partition, led.partition)
UNION ALL
SELECT 'held', min_insync_replicas, topic, CAST(unix_micros(held_from) AS VARCHAR)
FROM held_partitions
WHERE partition = -1 AND held_from <= timestamp_micros($until_us)
    AND (topic = '' OR topic IN (SELECT topic FROM led))
UNION ALL
SELECT 'silent', broker_id, NULL,
    CAST(coalesce(next_us - last_us > $silence_us, TRUE) AS VARCHAR)
FROM heartbeats WHERE last_us IS NOT NULL
UNION ALL
SELECT what, node_id, CAST(broker_id AS VARCHAR),
    concat_ws(' ', CAST(unix_micros(uncertain_from) AS VARCHAR), CAST(unix_micros(uncertain_until) AS VARCHAR))
FROM uncertainties WHERE shown_at <= timestamp_micros($until_us)
ORDER BY what, id, topic, value
-- name: written_partitions
-- The partitions that each leader's PRODUCEs are for.
SELECT DISTINCT recording, node_id, p.topic, p.topic_id, p.partition
FROM (SELECT recording, node_id, unnest(partitions) AS p FROM produces)
-- name: stated_partitions
-- Partitions whose ISR lines state, and topics (partition null) whose min.insync.replicas they do:
-- since when, UTC microseconds.
SELECT recording, topic, partition, min(unix_micros(least(built_at, dequeued_at))) AS stated_us
FROM isr_changes GROUP BY recording, topic, partition
UNION ALL
SELECT recording, topic, NULL, min(unix_micros(built_at))
FROM stated_configs WHERE topic <> '' GROUP BY recording, topic
