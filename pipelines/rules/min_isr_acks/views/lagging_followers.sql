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
