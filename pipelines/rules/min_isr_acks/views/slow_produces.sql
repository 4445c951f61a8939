-- The hundred slowest PRODUCEs of each recording, and the in-sync follower that each waited for.
-- rank: 1 is the slowest
-- total_ms: from arrival until the response was sent
-- request_queue_ms: of that, waiting for a request handler
-- local_ms: being appended
-- remote_ms: waiting for followers
-- response_queue_ms: waiting for a network thread
-- send_ms: being sent
-- throttle_ms: not part of it: for so long the broker reads nothing more from the client
-- node_id: leader, which got the PRODUCE
-- client_id: clientId, null if the client sent none
-- acks: -1 all, 0, 1
-- received_at: arrival
-- built_at: the response was built
-- topic: of the partition that its in-sync followers had last, where that is known
-- partition: its index
-- partitions: how many the PRODUCE has
-- base_offset: first offset of the batch there; null: the log can't tell
-- error_code: Kafka's error code of the partition; null without a response
-- in_sync_replicas: how many were in sync at the append; null: not known
-- min_insync_replicas: in force then
-- last_follower_id: in-sync follower that had the batch last, of those that had it before the response; null: not known
-- last_follower_offset: fetchOffset of its first FETCH beyond the batch
-- last_follower_at: arrival of that FETCH
-- last_follower_handled_at: its handler returned, which also completes the PRODUCE
-- last_follower_fetch_id: its key in requests
-- enough_follower_id: in-sync follower that made them min.insync.replicas; null: not known, or none is needed
-- enough_follower_at: arrival of its first FETCH beyond the batch
-- missing_followers: in-sync followers without such a FETCH before the response
-- missing_follower_id: the one of these with the least id; null: none
-- recorded_ms: from arrival until the response was built
-- acks_all_ms: likewise with acks=all, replayed; null: not known
-- min_isr_ms: likewise with acks=min.insync.replicas; null: not known
-- reason: why it is not known
-- request_id: key of requests
-- source_file: file of the log
-- line_number: line in it
WITH ranked AS (
  SELECT recording, request_id, row_number() OVER (
    PARTITION BY recording ORDER BY total_ms DESC, request_id
  ) AS rank
  FROM requests WHERE api_name = 'PRODUCE' AND total_ms IS NOT NULL
),
slow AS (
  SELECT r.*, rank FROM requests AS r JOIN ranked USING (recording, request_id) WHERE rank <= 100
),
batches AS (
  SELECT o.*
  FROM produce_ack_outcomes AS o JOIN slow USING (recording, request_id) WHERE o.parameter = 'none'
),
requested AS (
  SELECT recording, slow.request_id, f.request_id AS fetch_id, f.replica_id, f.received_at,
    f.dequeued_at, f.handled_at, explode(f.request_partitions) AS each
  FROM fetches AS f JOIN slow USING (recording, node_id)
  WHERE f.dequeued_at >= slow.dequeued_at
    AND f.dequeued_at <= slow.built_at + INTERVAL '0.005 seconds' AND f.replica_id >= 0 AND NOT f.is_cluster_metadata AND f.error_code = 0
),
beyond AS (
  SELECT b.recording, b.request_id, b.topic, b.partition, r.replica_id, r.fetch_id, r.received_at,
    r.dequeued_at, r.handled_at, r.each.fetch_offset AS fetch_offset,
    row_number() OVER (
      PARTITION BY b.recording, b.request_id, b.topic, b.partition, r.replica_id
      ORDER BY r.dequeued_at NULLS LAST, r.fetch_id
    ) AS number
  FROM requested AS r
  LEFT JOIN topic_names AS named ON named.recording = r.recording AND named.topic_id = r.each.topic_id
  JOIN batches AS b ON b.recording = r.recording AND b.request_id = r.request_id
    AND b.topic = coalesce(r.each.topic, named.name, r.each.topic_id)
    AND b.partition = r.each.partition
  WHERE b.acks = -1 AND r.each.fetch_offset > b.base_offset
    AND array_contains(b.isr, r.replica_id)
),
arrivals AS (
  SELECT *,
    row_number() OVER (
      PARTITION BY recording, request_id, topic, partition ORDER BY dequeued_at NULLS LAST, fetch_id
    ) AS place,
    count(*) OVER (PARTITION BY recording, request_id, topic, partition) AS followers
  FROM beyond WHERE number = 1
),
expected AS (
  SELECT recording, request_id, topic, partition, node_id, explode(isr) AS replica_id
  FROM batches WHERE acks = -1 AND base_offset IS NOT NULL
),
missing AS (
  SELECT
    recording, request_id, topic, partition, count(*) AS followers, min(replica_id) AS follower_id
  FROM expected LEFT JOIN arrivals USING (recording, request_id, topic, partition, replica_id)
  WHERE replica_id <> node_id AND place IS NULL GROUP BY recording, request_id, topic, partition
),
waits AS (
  SELECT b.*, cardinality(b.isr) AS in_sync_replicas, last.replica_id AS last_follower_id,
    last.fetch_offset AS last_follower_offset, last.received_at AS last_follower_at,
    last.handled_at AS last_follower_handled_at, last.fetch_id AS last_follower_fetch_id,
    enough.replica_id AS enough_follower_id, enough.received_at AS enough_follower_at,
    count(*) OVER (PARTITION BY recording, request_id) AS partitions,
    coalesce(m.followers, 0) AS missing_followers, m.follower_id AS missing_follower_id,
    row_number() OVER (
      PARTITION BY recording, request_id
      ORDER BY m.followers DESC NULLS LAST, last.dequeued_at DESC NULLS LAST, topic, partition
    ) AS place
  FROM batches AS b
  LEFT JOIN (SELECT * FROM arrivals WHERE place = followers) AS last
    USING (recording, request_id, topic, partition)
  LEFT JOIN (SELECT *, place + 1 AS min_insync_replicas FROM arrivals) AS enough
    USING (recording, request_id, topic, partition, min_insync_replicas)
  LEFT JOIN missing AS m USING (recording, request_id, topic, partition)
)
SELECT recording, s.rank, s.total_ms, s.request_queue_ms, s.local_ms, s.remote_ms,
  s.response_queue_ms, s.send_ms, s.throttle_ms, s.node_id, s.client_id, w.acks, s.received_at, s.built_at,
  w.topic, w.partition, w.partitions, w.base_offset, w.recorded_error AS error_code, w.in_sync_replicas,
  w.min_insync_replicas, w.last_follower_id, w.last_follower_offset, w.last_follower_at,
  w.last_follower_handled_at, w.last_follower_fetch_id, w.enough_follower_id,
  w.enough_follower_at, w.missing_followers, w.missing_follower_id,
  w.request_recorded_latency_ms AS recorded_ms, w.request_acks_all_latency_ms AS acks_all_ms,
  w.request_min_isr_latency_ms AS min_isr_ms, w.reason, request_id, s.source_file, s.line_number
FROM slow AS s LEFT JOIN (SELECT * FROM waits WHERE place = 1) AS w USING (recording, request_id)
