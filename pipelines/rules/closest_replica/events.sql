-- name: events
-- What lines show of the partitions that consumers read, for their leaders: recording, node_id (a node
-- that leads the partition at some time, else the one that was read from), INPUT_SCHEMA.
WITH routes AS (
    SELECT DISTINCT recording, topic, partition, leader_id AS node_id FROM named_terms
),
fetched AS (
    SELECT * FROM topic_fetches
    WHERE completed_at > $since_at - INTERVAL 60 SECOND AND received_at <= $until_at
),
-- With when the follower's response before was built.
followed AS (
    SELECT *, lag(built_us) OVER (
        PARTITION BY recording, node_id, client_id, replica_id
        ORDER BY dequeued_us, request_id) AS previous_us
    FROM fetched WHERE replica_id >= 0
),
consumed AS (
    SELECT *, CASE WHEN session_id > 0 THEN session_id ELSE response_session_id END AS session
    FROM fetched WHERE replica_id = -1 AND completed_at > $since_at
),
-- What followers have and learn, and what sessions list, of each partition.
stated AS (
    SELECT recording, node_id AS leader_id, request_id, 'progress' AS kind, replica_id AS broker_id,
        p.topic AS topic, p.topic_id AS topic_id, p.partition AS partition,
        p.fetch_offset AS fetch_offset, noted_us AS at_us
    FROM (SELECT *, unnest(request_partitions) AS p FROM followed WHERE completed_at > $since_at)
    WHERE p.fetch_offset >= 0 AND NOT is_in(p, refused)
    UNION ALL BY NAME
    SELECT recording, node_id AS leader_id, request_id, 'returned' AS kind, replica_id AS broker_id,
        p.topic AS topic, p.topic_id AS topic_id, p.partition AS partition,
        p.high_watermark AS high_watermark, received_us, previous_us, built_us AS at_us
    FROM (SELECT *, unnest(response_partitions) AS p FROM followed WHERE completed_at > $since_at)
    WHERE p.error_code = 0 AND p.high_watermark >= 0
    UNION ALL BY NAME
    SELECT recording, request_id, 'listed' AS kind, node_id AS broker_id,
        p.topic AS topic, p.topic_id AS topic_id, p.partition AS partition,
        p.fetch_offset AS fetch_offset, session AS session_id, dequeued_us AS at_us
    FROM (SELECT *, unnest(request_partitions) AS p FROM consumed WHERE session > 0)
),
returned AS (
    SELECT *, unnest(list_filter(response_partitions, lambda r:
            r.record_bytes > 0 OR r.preferred_read_replica >= 0)) AS p
    FROM consumed
),
-- What a FETCH takes besides records is shared out among the partitions.
read AS (
    SELECT r.*, coalesce(n.name, p.topic, p.topic_id) AS topic, p.partition AS partition,
        get(list_filter(request_partitions, lambda q: is_same(q, p)), 0).fetch_offset AS fetch_offset,
        count(*) OVER of_request AS shares, sum(p.record_bytes) OVER of_request AS records
    FROM returned AS r LEFT JOIN topic_names AS n
    ON n.recording = r.recording AND n.topic_id = r.p.topic_id
    WINDOW of_request AS (PARTITION BY r.recording, r.request_id)
),
-- ISRs that differ from what the node had before, or had longer ago than a minute.
isrs AS (
    SELECT *, lag({'isr': isr, 'epoch': leader_epoch}) OVER of_node AS before,
        {'isr': isr, 'epoch': leader_epoch} AS state,
        lag(unix_micros(built_at)) OVER of_node AS before_us
    FROM isr_changes
    WHERE coalesce(error_code, 0) = 0 AND isr IS NOT NULL
        AND built_at > $since_at - INTERVAL 60 SECOND AND built_at <= $until_at
    WINDOW of_node AS (
        PARTITION BY recording, node_id, topic, topic_id, partition ORDER BY built_at, request_id)
)
SELECT DISTINCT r.recording, r.node_id, -1 AS at_us, kind_order('rack') AS kind_order,
    CAST(b.broker_id AS VARCHAR) AS request_id, 'rack' AS kind, '' AS topic, 0 AS partition,
    b.broker_id, b.rack
FROM (SELECT DISTINCT recording, node_id FROM routes
    UNION SELECT DISTINCT recording, node_id FROM read) AS r
JOIN broker_racks AS b ON b.recording = r.recording
UNION ALL BY NAME
-- The first of a partition is true at all times.
SELECT r.recording, r.node_id, unnest(CASE WHEN t.leader_epoch = t.first_epoch
        THEN [-1, t.stated_us] ELSE [t.stated_us] END) AS at_us,
    kind_order('term') AS kind_order, CAST(t.leader_epoch AS VARCHAR) AS request_id,
    'term' AS kind, t.topic, t.partition, t.leader_id AS broker_id, t.leader_epoch
FROM named_terms AS t JOIN routes AS r
ON r.recording = t.recording AND r.topic = t.topic AND r.partition = t.partition
UNION ALL BY NAME
SELECT r.recording, r.node_id, unix_micros(i.built_at) AS at_us, kind_order('isr') AS kind_order,
    i.request_id, 'isr' AS kind, r.topic, r.partition, i.leader_id AS broker_id, i.isr
FROM isrs AS i LEFT JOIN topic_names AS n ON n.recording = i.recording AND n.topic_id = i.topic
JOIN routes AS r
ON r.recording = i.recording AND r.topic = coalesce(n.name, i.topic) AND r.partition = i.partition
    AND r.node_id = i.leader_id
WHERE i.state IS DISTINCT FROM i.before OR unix_micros(i.built_at) - i.before_us >= 60000000
UNION ALL BY NAME
SELECT r.recording, r.node_id, s.at_us, kind_order(s.kind) AS kind_order, s.request_id, s.kind,
    r.topic, r.partition, s.broker_id, s.fetch_offset, s.high_watermark, s.received_us,
    s.previous_us, s.session_id
FROM stated AS s
LEFT JOIN topic_names AS n ON n.recording = s.recording AND n.topic_id = s.topic_id
JOIN routes AS r ON r.recording = s.recording AND r.partition = s.partition
    AND r.topic = coalesce(n.name, s.topic, s.topic_id) AND r.node_id = coalesce(s.leader_id, r.node_id)
UNION ALL BY NAME
SELECT e.recording, coalesce(r.node_id, e.node_id) AS node_id, e.built_us AS at_us,
    kind_order('read') AS kind_order, e.request_id, 'read' AS kind, e.topic, e.partition,
    e.node_id AS broker_id, e.rack_id AS rack, e.fetch_offset,
    e.p.high_watermark AS high_watermark, e.p.last_stable_offset AS last_stable_offset,
    e.session AS session_id, e.dequeued_us, e.handled_us, e.api_version, e.isolation_level,
    e.client_id, host_of(e.connection) AS client_host, e.p.record_bytes AS record_bytes,
    e.request_bytes // e.shares AS request_bytes,
    (e.response_bytes - e.records) // e.shares AS response_bytes,
    CASE WHEN e.p.preferred_read_replica >= 0 THEN e.p.preferred_read_replica END
        AS preferred_read_replica
FROM read AS e LEFT JOIN routes AS r
ON r.recording = e.recording AND r.topic = e.topic AND r.partition = e.partition
-- name: dependencies
-- What outcomes up to a time follow from besides the log up to it: names of topic ids, who first led
-- what consumers read by then, and where brokers are.
SELECT 'name' AS what, topic_id AS topic, NULL AS id, name AS value FROM usable_names
UNION ALL
SELECT 'led', topic, leader_epoch, concat_ws(' ', CAST(partition AS VARCHAR),
    CAST(leader_id AS VARCHAR))
FROM named_terms WHERE leader_epoch = first_epoch AND read_us <= $until_us
UNION ALL
SELECT 'rack', rack, broker_id, NULL FROM broker_racks
ORDER BY what, topic, id, value
-- name: read_partitions
-- Partitions that consumers read or were redirected from: since when, UTC microseconds.
SELECT recording, r.topic, r.topic_id, r.partition, min(unix_micros(built_at)) AS stated_us
FROM (SELECT recording, built_at, unnest(list_filter(response_partitions, lambda p:
        p.record_bytes > 0 OR p.preferred_read_replica >= 0)) AS r
    FROM fetches WHERE replica_id = -1 AND error_code = 0 AND NOT is_cluster_metadata)
GROUP BY ALL
-- name: leader_terms
-- Who leads a partition with an epoch, as METADATA, ALTER_PARTITION and followers' FETCHes have it:
-- since when, UTC microseconds.
SELECT recording, topic, topic_id, partition, leader_epoch, leader_id, min(at_us) AS stated_us
FROM (
    SELECT recording, topic, topic_id, partition, leader_epoch, leader_id,
        unix_micros(built_at) AS at_us
    FROM isr_changes WHERE leader_id >= 0 AND leader_epoch >= 0
    UNION ALL
    SELECT recording, p.topic, p.topic_id, p.partition, p.current_leader_epoch, node_id,
        unix_micros(dequeued_at)
    FROM (SELECT recording, node_id, dequeued_at, unnest(request_partitions) AS p
        FROM fetches WHERE replica_id >= 0 AND NOT is_cluster_metadata)
    WHERE p.current_leader_epoch >= 0
) AS shown
GROUP BY ALL
-- name: named_terms
-- leader_terms of the partitions that consumers read, by the topic's name, with the first epoch and when
-- one was first read.
WITH reads AS (
    SELECT r.recording, coalesce(n.name, r.topic, r.topic_id) AS topic, r.partition,
        min(r.stated_us) AS read_us
    FROM read_partitions AS r LEFT JOIN topic_names AS n
    ON n.recording = r.recording AND n.topic_id = r.topic_id
    GROUP BY ALL
),
named AS (
    SELECT t.recording, coalesce(n.name, t.topic, t.topic_id) AS topic, t.partition,
        t.leader_epoch, t.leader_id, min(t.stated_us) AS stated_us
    FROM leader_terms AS t LEFT JOIN topic_names AS n
    ON n.recording = t.recording AND n.topic_id = t.topic_id
    GROUP BY ALL
)
SELECT named.*, read_us,
    min(leader_epoch) OVER (PARTITION BY named.recording, named.topic, named.partition) AS first_epoch
FROM named JOIN reads
ON reads.recording = named.recording AND reads.topic = named.topic
    AND reads.partition = named.partition
-- name: broker_racks
-- broker.rack of each broker, as METADATA and registrations have it; of two the first by name.
SELECT recording, broker_id, min(rack) AS rack FROM brokers WHERE rack IS NOT NULL
GROUP BY recording, broker_id
