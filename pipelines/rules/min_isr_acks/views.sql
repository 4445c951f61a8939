-- name: lagging_followers
-- Which followers complete PRODUCEs with acks=all, of those whose ISR had another follower, too.
-- follower_id: follower, in the ISR at the append
-- waits: partitions of PRODUCEs that it and others were to have, also where the last is not known
-- last: those that all had with its FETCH
-- waited: those of them whose response was built no sooner, but for 2 ms that stamps leave open; few where brokers run acks=min.insync.replicas
-- last_ms: how long that took, from the append: median
WITH waits AS (
  SELECT recording, node_id, acks_all_follower_id AS last_id, explode(isr) AS follower_id,
    (unix_micros(all_isr_acked_at) - unix_micros(appended_at)) / 1e3 AS wait_ms,
    unix_micros(built_at) + 2000 >= unix_micros(all_isr_acked_at) AS is_waited
  FROM produce_ack_outcomes WHERE parameter = 'none' AND acks = -1 AND cardinality(isr) > 2
)
SELECT recording, follower_id, count(*) AS waits, count(*) FILTER (WHERE last_id = follower_id) AS last,
  count(*) FILTER (WHERE last_id = follower_id AND is_waited) AS waited,
  get(sort_array(collect_list(CASE follower_id WHEN last_id THEN wait_ms END)),
    CAST(floor(0.5 * (count(*) FILTER (WHERE last_id = follower_id) - 1)) AS INT)) AS last_ms
FROM waits WHERE follower_id <> node_id GROUP BY recording, follower_id
-- name: produce_latency_over_time
-- How long producers that react wait for the response over time, by variant.
-- variant: recorded, acks_all or acks_min_insync_replicas
-- bucket_at: the bucket begins; the PRODUCE arrived in it, as recorded
-- outcomes: requests that waited for all replicas
-- unknown: those that the log can't decide
-- p50_ms: at rank floor(0.5 * (n - 1)), the unknown ranked last
-- p90_ms: likewise; null of fewer than 10
-- p99_ms: likewise; null of fewer than 100
WITH reacting AS (SELECT * FROM produce_closed_loop_outcomes WHERE parameter = 'none'),
waits AS (
  SELECT recording, variant, recorded_received_at AS event_at, latency_ms AS value_ms FROM reacting
  UNION ALL
  SELECT recording, 'recorded', recorded_received_at, request_recorded_latency_ms
  FROM reacting
  WHERE variant = 'acks_min_insync_replicas' AND request_recorded_latency_ms IS NOT NULL
)
SELECT recording, variant,
  timestamp_micros(unix_micros(event_at) - unix_micros(event_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
  count(*) AS outcomes,
  count(*) FILTER (WHERE value_ms IS NULL) AS unknown,
  get(sort_array(collect_list(value_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT)) AS p50_ms,
  CASE WHEN count(*) >= 10 THEN get(sort_array(collect_list(value_ms)), CAST(floor(0.9 * (count(*) - 1)) AS INT)) END AS p90_ms,
  CASE WHEN count(*) >= 100 THEN get(sort_array(collect_list(value_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) END AS p99_ms
FROM waits JOIN time_buckets USING (recording) GROUP BY ALL
-- name: slow_produces
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
-- topic: of the partition that its in-sync followers had last, where that is known
-- partition: its index
-- partitions: how many the PRODUCE has
-- base_offset: first offset of the batch there; null: the log can't tell
-- error_code: Kafka's error code of the partition; null without a response
-- last_follower_id: follower whose FETCH completes it with acks=all; null: none does, or not known
-- last_follower_offset: fetchOffset of that FETCH
-- last_follower_at: arrival of that FETCH
-- last_follower_after_ms: how long after received_at
-- last_follower_fetch_id: its key in requests
-- last_follower_source_file: its file of the log
-- last_follower_line_number: its line in it
-- missing_followers: how many that were in sync at the append did not have it when acks=all completed
-- missing_follower_id: the one of these with the least id; null: none
-- min_isr_ms: from arrival until the response with acks=min.insync.replicas; null: not known
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
  SELECT o.*, count(*) OVER (PARTITION BY recording, request_id) AS partitions,
    row_number() OVER (
      PARTITION BY recording, request_id
      ORDER BY cardinality(missing_followers) DESC NULLS LAST, all_isr_acked_at DESC NULLS LAST,
        topic, partition
    ) AS place
  FROM produce_ack_outcomes AS o JOIN slow USING (recording, request_id) WHERE o.parameter = 'none'
),
waits AS (SELECT * FROM batches WHERE place = 1),
completing AS (
  SELECT w.recording, w.request_id, w.topic, w.partition, f.received_at,
    explode(f.request_partitions) AS each
  FROM waits AS w
  JOIN fetches AS f ON f.recording = w.recording AND f.request_id = w.acks_all_fetch_id
),
fetched AS (
  SELECT c.recording, c.request_id, c.received_at, c.each.fetch_offset AS fetch_offset
  FROM completing AS c
  LEFT JOIN topic_names AS named ON named.recording = c.recording AND named.topic_id = c.each.topic_id
  WHERE c.topic = coalesce(c.each.topic, named.name, c.each.topic_id)
    AND c.partition = c.each.partition
)
SELECT s.recording, s.rank, s.total_ms, s.request_queue_ms, s.local_ms, s.remote_ms,
  s.response_queue_ms, s.send_ms, s.throttle_ms, s.node_id, s.client_id, w.acks, s.received_at,
  w.topic, w.partition, w.partitions, w.base_offset, w.recorded_error AS error_code,
  w.acks_all_follower_id AS last_follower_id, last.fetch_offset AS last_follower_offset,
  last.received_at AS last_follower_at,
  (unix_micros(last.received_at) - unix_micros(s.received_at)) / 1e3 AS last_follower_after_ms,
  w.acks_all_fetch_id AS last_follower_fetch_id, f.source_file AS last_follower_source_file,
  f.line_number AS last_follower_line_number, coalesce(cardinality(w.missing_followers), 0) AS missing_followers,
  get(w.missing_followers, 0) AS missing_follower_id,
  w.request_min_isr_latency_ms AS min_isr_ms, w.reason, s.request_id, s.source_file, s.line_number
FROM slow AS s
LEFT JOIN waits AS w USING (recording, request_id)
LEFT JOIN fetched AS last USING (recording, request_id)
LEFT JOIN requests AS f ON f.recording = s.recording AND f.request_id = w.acks_all_fetch_id
