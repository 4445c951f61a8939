-- What FETCHes bring of each topic partition: responses that list it, and record bytes.
-- client_kind: follower or consumer
-- topic: topic name, else topic id
-- partition: partition index
-- responses: responses that list the partition
-- responses_with_records: those with records
-- record_bytes: bytes of records
-- errors: responses with an error of the partition
SELECT each.recording, node_id,
  CASE WHEN replica_id >= 0 THEN 'follower' ELSE 'consumer' END AS client_kind,
  client_id,
  coalesce(returned.topic, name, returned.topic_id) AS topic,
  returned.partition AS partition,
  count(*) AS responses,
  count(*) FILTER (WHERE returned.record_bytes > 0) AS responses_with_records,
  sum(returned.record_bytes) AS record_bytes,
  count(*) FILTER (WHERE returned.error_code <> 0) AS errors
FROM (
    SELECT *, explode(response_partitions) AS returned FROM fetches WHERE NOT is_cluster_metadata
  ) AS each
  LEFT JOIN topic_names
    ON topic_names.recording = each.recording AND topic_names.topic_id = returned.topic_id
GROUP BY 1, 2, 3, 4, 5, 6
