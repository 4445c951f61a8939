-- How many records consumers are behind: the high watermark of a FETCH response less the fetch offset of its request, of partitions that both name.
-- connection: one consumer's
-- topic: topic name, else topic id
-- partition: partition index
-- responses: responses
-- first_lag: records behind in the first of them
-- last_lag: records behind in the last
-- appended: what the high watermark advanced between both
WITH sent AS (
  SELECT recording, request_id, node_id, client_id, connection, built_at, explode(request_partitions) AS sent
  FROM fetches WHERE replica_id < 0
),
returned AS (SELECT recording, request_id, explode(response_partitions) AS got FROM fetches WHERE replica_id < 0),
positions AS (
  SELECT s.recording, node_id, client_id, connection, coalesce(name, got.topic, got.topic_id) AS topic,
    got.partition AS partition, got.high_watermark AS high_watermark, got.high_watermark - sent.fetch_offset AS lag,
    (unix_micros(built_at), s.request_id) AS place
  FROM sent AS s
  JOIN returned AS r ON r.recording = s.recording AND r.request_id = s.request_id AND got.partition = sent.partition
    AND coalesce(got.topic, got.topic_id) = coalesce(sent.topic, sent.topic_id)
  LEFT JOIN topic_names AS t ON t.recording = s.recording AND t.topic_id = got.topic_id
  WHERE got.error_code = 0 AND got.high_watermark >= 0 AND sent.fetch_offset >= 0
)
SELECT recording, node_id, client_id, connection, topic, partition, count(*) AS responses,
  min_by(lag, place) AS first_lag, max_by(lag, place) AS last_lag,
  max_by(high_watermark, place) - min_by(high_watermark, place) AS appended
FROM positions GROUP BY recording, node_id, client_id, connection, topic, partition
