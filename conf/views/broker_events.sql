-- Brokers that start, shut down, are fenced and no longer fenced, as heartbeats and registrations show it.
-- event_at: when a line first shows it; null: not known
-- kind: broker_started, broker_fenced, broker_unfenced or controlled_shutdown
-- node_id: broker
-- what: the event in words
WITH heartbeats AS (
  SELECT *,
    lag(is_fenced) OVER of_broker AS was_fenced,
    unix_micros(built_at) AS at_us,
    unix_micros(coalesce(lead(built_at) OVER of_broker, max(built_at) OVER (PARTITION BY recording, node_id))) AS next_us,
    coalesce(lead(node_id) OVER of_broker, node_id) AS next_node_id,
    count(*) OVER (
      PARTITION BY recording, node_id ORDER BY unix_micros(built_at) NULLS FIRST
      RANGE BETWEEN 1 FOLLOWING AND 9000000 FOLLOWING
    ) AS others
  FROM broker_heartbeats WHERE error_code = 0
  WINDOW of_broker AS (PARTITION BY recording, broker_id ORDER BY built_at NULLS LAST, request_id)
),
-- Longer than broker.session.timeout.ms, Kafka's default, and the 1.125 s after which a controller looks
-- again, while the same controller heard of others and none of its lines is missing.
silences AS (
  SELECT recording, broker_id, at_us, next_us FROM heartbeats
  WHERE NOT is_fenced AND NOT should_shut_down AND next_us > at_us + 10125000
    AND next_node_id = node_id AND others > 0
    AND NOT EXISTS (
      SELECT 1 FROM log_gaps AS g
      WHERE g.recording = heartbeats.recording AND g.node_id = heartbeats.node_id
        AND coalesce(unix_micros(g.after_at), 0) < next_us
        AND coalesce(unix_micros(g.before_at), next_us) > at_us)
),
fencings AS (
  SELECT recording, broker_id, built_at AS event_at, is_fenced,
    CASE WHEN is_fenced THEN ' is fenced' ELSE ' is no longer fenced' END AS what
  FROM heartbeats WHERE is_fenced <> was_fenced
  UNION ALL
  SELECT recording, broker_id, timestamp_micros(at_us + 9000000), true,
    ' sent no heartbeat for 9 s: fenced, unless its session timeout is longer'
  FROM silences
  UNION ALL
  SELECT h.recording, h.broker_id, built_at, false, ' is no longer fenced'
  FROM heartbeats AS h JOIN silences AS s
    ON s.recording = h.recording AND s.broker_id = h.broker_id AND s.next_us = h.at_us
  WHERE NOT is_fenced
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
