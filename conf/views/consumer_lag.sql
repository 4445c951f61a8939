-- How many records consumers are behind: the high watermark that a response had last less the fetch offset that a request had last; in a session each names only what changed.
-- connection: one consumer's
-- topic: topic name, else topic id
-- partition: partition index
-- responses: responses with its high watermark
-- first_lag: records behind at first
-- last_lag: records behind at last
-- appended: what the high watermark advanced meanwhile
WITH sent AS (
  SELECT recording, node_id, client_id, connection, built_at, request_id, explode(request_partitions) AS listed
  FROM fetches WHERE replica_id < 0
),
returned AS (
  SELECT recording, node_id, client_id, connection, built_at, request_id, explode(response_partitions) AS listed
  FROM fetches WHERE replica_id < 0
),
stated AS (
  SELECT recording, node_id, client_id, connection, built_at, request_id, listed.topic AS topic, listed.topic_id AS topic_id,
    listed.partition AS partition, CAST(NULL AS BIGINT) AS high_watermark,
    CASE WHEN listed.fetch_offset >= 0 THEN listed.fetch_offset END AS fetch_offset
  FROM sent
  UNION ALL SELECT recording, node_id, client_id, connection, built_at, request_id, listed.topic, listed.topic_id,
    listed.partition, CASE WHEN listed.error_code = 0 AND listed.high_watermark >= 0 THEN listed.high_watermark END, NULL
  FROM returned
),
positions AS (
  SELECT s.recording, node_id, client_id, connection, coalesce(name, topic, s.topic_id) AS topic, partition, high_watermark,
    fetch_offset, (unix_micros(built_at), request_id) AS place
  FROM stated AS s LEFT JOIN topic_names AS t ON t.recording = s.recording AND t.topic_id = s.topic_id
),
ends AS (
  SELECT recording, node_id, client_id, connection, topic, partition, count(high_watermark) AS responses,
    min_by(high_watermark, place) FILTER (WHERE high_watermark IS NOT NULL) AS first_high_watermark,
    max_by(high_watermark, place) FILTER (WHERE high_watermark IS NOT NULL) AS last_high_watermark,
    min_by(fetch_offset, place) FILTER (WHERE fetch_offset IS NOT NULL) AS first_offset,
    max_by(fetch_offset, place) FILTER (WHERE fetch_offset IS NOT NULL) AS last_offset
  FROM positions GROUP BY recording, node_id, client_id, connection, topic, partition
)
SELECT recording, node_id, client_id, connection, topic, partition, responses,
  first_high_watermark - first_offset AS first_lag, last_high_watermark - last_offset AS last_lag,
  last_high_watermark - first_high_watermark AS appended
FROM ends WHERE last_high_watermark IS NOT NULL AND last_offset IS NOT NULL
