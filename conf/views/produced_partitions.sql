-- Partitions of each PRODUCE by the names of their topics, which newer versions name by id alone.
-- topic: topic name, else topic id
-- topic_id: topic id, null where the PRODUCE has a name
-- partition: partition index
-- record_bytes: bytes of records
-- base_offset: offset of the first record; null without a response
-- error_code: error of the partition, 0 none; null without a response
SELECT each.recording, request_id, received_at, node_id, client_id, acks,
  coalesce(sent.topic, name, sent.topic_id) AS topic,
  sent.topic_id AS topic_id,
  sent.partition AS partition,
  sent.record_bytes AS record_bytes,
  sent.base_offset AS base_offset,
  sent.error_code AS error_code
FROM (SELECT *, explode(partitions) AS sent FROM produces) AS each
  LEFT JOIN topic_names
    ON topic_names.recording = each.recording AND topic_names.topic_id = sent.topic_id
