-- The steady phase of each recording that has requests (replay/phases.py): UTC microseconds, the
-- end exclusive. The nodes that responded to heartbeats bound the log where there are any: logs of
-- other nodes may reach further.
WITH nodes AS (
    SELECT recording, node_id, unix_micros(min(first_received_at)) AS first_us,
        unix_micros(max(last_completed_at)) AS last_us
    FROM ingested_files WHERE requests > 0 GROUP BY recording, node_id
),
active AS (
    SELECT recording, min(first_us) AS first_us, max(last_us) AS last_us
    FROM nodes SEMI JOIN (SELECT recording, node_id FROM heartbeat_sums WHERE responded > 0)
        AS responded USING (recording, node_id)
    GROUP BY recording
),
-- is_joining: who first sends one a minute after all before it were unfenced.
brokers AS (
    SELECT *, first_us > 60000000 + max(unfenced_us) OVER (
        PARTITION BY recording ORDER BY first_us, broker_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS is_joining
    FROM (
        SELECT recording, broker_id, min(first_us) AS first_us, min(unfenced_us) AS unfenced_us,
            min(shut_down_us) AS shut_down_us
        FROM heartbeat_sums GROUP BY recording, broker_id)
),
bounds AS (
    SELECT recording, max(CASE WHEN NOT has_begun THEN unfenced_us END) AS unfenced_us,
        min(shut_down_us) AS shut_down_us
    FROM (
        SELECT *, coalesce(bool_or(is_joining) OVER (
            PARTITION BY recording ORDER BY first_us, broker_id ROWS UNBOUNDED PRECEDING), FALSE)
            AS has_begun
        FROM brokers)
    GROUP BY recording
)
SELECT nodes.recording,
    coalesce(any_value(unfenced_us), any_value(active.first_us), min(nodes.first_us)) AS from_us,
    coalesce(any_value(shut_down_us), any_value(active.last_us) + 1, max(nodes.last_us) + 1)
        AS until_us
FROM nodes LEFT JOIN active ON nodes.recording = active.recording
LEFT JOIN bounds ON nodes.recording = bounds.recording
GROUP BY nodes.recording
