-- What happened to the cluster, and when, as request logs show it; a controller that restarts has no line of its own.
-- kind: metadata_leader, session_lost, config_change, log_gap, or one of partition_events and broker_events
-- node_id: node that it happened to, null: none
-- subject: what it is of: partition, client or resource; null: the node
WITH elected AS (
  SELECT recording, node_id, built_at, get(response_partitions, 0) AS returned,
    (get(request_partitions, 0)).current_leader_epoch AS leader_epoch
  FROM fetches WHERE is_cluster_metadata AND error_code = 0
),
metadata_epochs AS (
  SELECT recording, leader_epoch, min(built_at) AS event_at, min_by(node_id, built_at) AS node_id,
    min(leader_epoch) OVER (PARTITION BY recording) AS first_epoch
  FROM elected WHERE returned.error_code = 0 AND leader_epoch >= 0 GROUP BY recording, leader_epoch
),
changes AS (
  SELECT recording, configs.built_at, principal, client_id, correlation_id, is_forwarded,
    resource_type, resource_name, name, value, operation
  FROM configs JOIN requests USING (recording, request_id)
  WHERE operation <> 'describe' AND source <> 'CREATE_TOPICS' AND error_code = 0
)
SELECT recording, event_at, 'metadata_leader' AS kind, node_id, NULL AS subject,
  'controller ' || CAST(node_id AS STRING) || ' leads the metadata log (epoch '
    || CAST(leader_epoch AS STRING) || ')' AS what
FROM metadata_epochs WHERE leader_epoch > first_epoch
UNION ALL
SELECT recording, event_at, kind, node_id, subject, what FROM partition_events
UNION ALL
SELECT recording, event_at, kind, node_id, NULL, what FROM broker_events
UNION ALL
SELECT recording, built_at, 'session_lost', node_id, client_id,
  'broker ' || CAST(node_id AS STRING) || ' had no fetch session of '
    || coalesce(client_id, 'a client without an id') || ' any more: evicted, or a restart'
FROM fetches WHERE error_code = 70
UNION ALL
SELECT recording, built_at, 'config_change',
  CASE WHEN resource_type = 'broker' THEN TRY_CAST(resource_name AS INT) END,
  concat_ws(' ', resource_type, resource_name),
  concat_ws(' ', resource_type, resource_name) || ': ' || operation || ' ' || name
    || coalesce(' = ' || value, '') || coalesce(', by ' || principal, '')
    || coalesce(' (' || client_id || ')', '')
FROM changes
WHERE NOT EXISTS (
  SELECT 1 FROM changes AS copies
  WHERE copies.is_forwarded AND NOT changes.is_forwarded
    AND copies.recording = changes.recording
    AND copies.client_id = changes.client_id
    AND copies.correlation_id = changes.correlation_id
    AND copies.resource_name = changes.resource_name
    AND copies.name = changes.name
    AND abs(unix_micros(copies.built_at) - unix_micros(changes.built_at)) < 60000000
)
UNION ALL
SELECT recording, coalesce(after_at, before_at), 'log_gap', node_id, NULL,
  'the log of ' || CAST(node_id AS STRING) || CASE evidence
    WHEN 'no_log' THEN ' is missing'
    WHEN 'logger_off' THEN ' is empty'
    WHEN 'begins_late' THEN ' begins late'
    WHEN 'ends_early' THEN ' ends early'
    ELSE ' has a gap' END
FROM log_gaps
