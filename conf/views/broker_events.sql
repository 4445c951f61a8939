-- Brokers that start, shut down, are fenced and no longer fenced, as heartbeats and registrations show it; they seem to fall silent in a gap of the controller's log.
-- event_at: when a line first shows it; null: not known
-- kind: broker_started, broker_fenced, broker_unfenced or controlled_shutdown
-- node_id: broker
-- what: the event in words
WITH heartbeats AS (
  SELECT *,
    lag(is_fenced) OVER of_broker AS was_fenced,
    -- for broker.session.timeout.ms, Kafka's default
    NOT is_fenced AND NOT should_shut_down
      AND unix_micros(built_at) + 9000000 < unix_micros(coalesce(
        lead(built_at) OVER of_broker, max(built_at) OVER (PARTITION BY recording)
      )) AS falls_silent
  FROM broker_heartbeats WHERE error_code = 0
  WINDOW of_broker AS (PARTITION BY recording, broker_id ORDER BY built_at NULLS LAST, request_id)
),
fencings AS (
  SELECT recording, broker_id, built_at AS event_at, is_fenced,
    CASE WHEN is_fenced THEN ' is fenced' ELSE ' is no longer fenced' END AS what
  FROM (
    SELECT *,
      lag(falls_silent) OVER (
        PARTITION BY recording, broker_id ORDER BY built_at NULLS LAST, request_id
      ) AS was_silent
    FROM heartbeats
  ) AS each
  WHERE is_fenced <> was_fenced OR was_silent AND NOT is_fenced
  UNION ALL
  SELECT recording, broker_id, timestamp_micros(unix_micros(built_at) + 9000000), true,
    ' sent no heartbeat for 9 s: fenced, unless its session timeout is longer'
  FROM heartbeats WHERE falls_silent
),
incarnations AS (
  SELECT recording, broker_id, broker_epoch, min(seen_at) AS event_at,
    bool_or(is_registered) AS is_registered,
    min(broker_epoch) OVER (PARTITION BY recording, broker_id) AS first_epoch
  FROM (
    SELECT recording, broker_id, broker_epoch, built_at AS seen_at, false AS is_registered
    FROM heartbeats
    UNION ALL
    SELECT recording, subject_id, metadata_offset, built_at, true
    FROM metadata_offsets WHERE kind = 'broker_epoch'
  ) AS each
  GROUP BY recording, broker_id, broker_epoch
),
events AS (
  SELECT recording, broker_id, event_at, 'broker_started' AS kind,
    ' started (broker epoch ' || CAST(broker_epoch AS STRING) || ')' AS what
  FROM incarnations WHERE is_registered OR broker_epoch > first_epoch
  UNION ALL
  SELECT recording, broker_id, event_at,
    CASE WHEN is_fenced THEN 'broker_fenced' ELSE 'broker_unfenced' END, what
  FROM fencings
  UNION ALL
  SELECT recording, broker_id, min(built_at), 'controlled_shutdown', ' shuts down'
  FROM heartbeats WHERE want_shut_down GROUP BY recording, broker_id, broker_epoch
)
SELECT recording, event_at, kind, broker_id AS node_id,
  'broker ' || CAST(broker_id AS STRING) || what AS what
FROM events
