-- Topics that no client writes to, or that none reads, as long as the log is; not internal ones, nor those that were deleted.
-- partitions: its partitions; null where no line has them
-- is_written: a client sent a PRODUCE for it; null: not known, as lines are missing
-- is_read: a consumer has it in a FETCH, or a member of a group in its assignment or its commits; null: not known, as lines are missing, a fetch session is older than the log and not all is known of it, or share groups read
WITH named AS (
  SELECT recording, topic, max(partitions) AS partitions
  FROM (SELECT t.recording, coalesce(name, topic) AS topic, partitions, coalesce(is_internal, false) AS is_internal
    FROM topics AS t LEFT JOIN topic_names AS n ON n.recording = t.recording AND n.topic_id = t.topic
    WHERE error_code = 0) AS each
  WHERE topic NOT IN ('__consumer_offsets', '__transaction_state', '__share_group_state', '__cluster_metadata')
  GROUP BY recording, topic HAVING NOT bool_or(is_internal)
),
deleted AS (
  SELECT w.recording, coalesce(n.name, written.name) AS topic
  FROM (SELECT recording, explode(resources) AS written FROM metadata_writes WHERE api_name = 'DELETE_TOPICS') AS w
    LEFT JOIN topic_names AS n ON n.recording = w.recording AND n.topic_id = written.name
  WHERE written.error_code = 0
),
reads AS (
  SELECT recording, listed.topic AS topic, listed.topic_id AS topic_id
  FROM (SELECT recording, explode(partitions) AS listed FROM group_assignments) AS a
  UNION ALL SELECT recording, listed.topic, listed.topic_id
  FROM (SELECT recording, explode(response_partitions) AS listed FROM fetches WHERE replica_id < 0) AS f
  UNION ALL SELECT recording, listed.topic, listed.topic_id
  FROM (SELECT recording, explode(partitions) AS listed FROM held_sessions WHERE replica_id < 0) AS s
),
used AS (
  SELECT recording, topic, true AS is_written, false AS is_read FROM produced_partitions
  UNION ALL SELECT r.recording, coalesce(name, r.topic, r.topic_id), false, true
  FROM reads AS r LEFT JOIN topic_names AS n ON n.recording = r.recording AND n.topic_id = r.topic_id
),
uses AS (
  SELECT recording, topic, bool_or(is_written) AS is_written, bool_or(is_read) AS is_read FROM used GROUP BY recording, topic
),
-- Fetch sessions of consumers that the log has neither opened nor accounted for.
sessions AS (
  SELECT recording, node_id, response_session_id AS id FROM fetches WHERE session_epoch = 0
  UNION ALL SELECT recording, node_id, session_id FROM held_sessions
),
unknown AS (
  SELECT recording, false AS may_be_written FROM requests WHERE api_name = 'SHARE_FETCH'
  UNION ALL SELECT f.recording, false FROM fetches AS f
    LEFT JOIN sessions AS s ON s.recording = f.recording AND s.node_id = f.node_id AND s.id = f.session_id
  WHERE replica_id < 0 AND session_id > 0 AND s.id IS NULL
  UNION ALL SELECT recording, true FROM log_gaps
),
open_ended AS (SELECT recording, bool_or(may_be_written) AS may_be_written FROM unknown GROUP BY recording),
stated AS (
  SELECT t.recording, t.topic, partitions,
    CASE WHEN u.is_written OR NOT coalesce(may_be_written, false) THEN coalesce(u.is_written, false) END AS is_written,
    CASE WHEN u.is_read OR o.recording IS NULL THEN coalesce(u.is_read, false) END AS is_read
  FROM named AS t LEFT JOIN uses AS u ON u.recording = t.recording AND u.topic = t.topic
    LEFT JOIN deleted AS d ON d.recording = t.recording AND d.topic = t.topic
    LEFT JOIN open_ended AS o ON o.recording = t.recording
  WHERE d.topic IS NULL
)
SELECT recording, topic, partitions, is_written, is_read FROM stated WHERE NOT is_written OR NOT is_read
