-- How many records a consumer group is behind by its last commit of a partition: the high watermark that a FETCH response had last before, less the committed offset. What a transaction commits (TXN_OFFSET_COMMIT) is not in it.
-- topic: topic name, else topic id
-- partition: partition index
-- committed_offset: the next offset to read
-- high_watermark: null if no response before had it
-- lag: records behind
-- committed_at: when the response was built
WITH commits AS (
  SELECT recording, group_id, built_at, explode(partitions) AS listed FROM group_assignments
),
last_commits AS (
  SELECT c.recording, group_id, coalesce(name, listed.topic, listed.topic_id) AS topic, listed.partition AS partition,
    max_by(listed.committed_offset, (unix_micros(built_at), listed.committed_offset)) AS committed_offset,
    max(built_at) AS committed_at
  FROM commits AS c LEFT JOIN topic_names AS t ON t.recording = c.recording AND t.topic_id = listed.topic_id
  WHERE listed.committed_offset >= 0
  GROUP BY c.recording, group_id, coalesce(name, listed.topic, listed.topic_id), listed.partition
),
returned AS (
  SELECT recording, built_at, explode(response_partitions) AS listed FROM fetches WHERE NOT is_cluster_metadata
),
stated AS (
  SELECT r.recording, coalesce(name, listed.topic, listed.topic_id) AS topic, listed.partition AS partition,
    listed.high_watermark AS high_watermark, built_at
  FROM returned AS r LEFT JOIN topic_names AS t ON t.recording = r.recording AND t.topic_id = listed.topic_id
  WHERE listed.error_code = 0 AND listed.high_watermark >= 0
),
ends AS (
  SELECT l.recording, group_id, l.topic, l.partition, committed_offset, committed_at,
    max_by(high_watermark, (unix_micros(built_at), high_watermark)) AS high_watermark
  FROM last_commits AS l LEFT JOIN stated AS s ON s.recording = l.recording AND s.topic = l.topic
    AND s.partition = l.partition AND s.built_at <= l.committed_at
  GROUP BY l.recording, group_id, l.topic, l.partition, committed_offset, committed_at
)
SELECT recording, group_id, topic, partition, committed_offset, high_watermark,
  high_watermark - committed_offset AS lag, committed_at
FROM ends
