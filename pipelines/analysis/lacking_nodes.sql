-- Nodes that a rule's rates are sums over, or would be, whose log is missing or ends with damage.
WITH summed AS (SELECT DISTINCT recording, rule, node_id FROM bandwidth_summary),
brokers AS (SELECT DISTINCT recording, broker_id AS node_id FROM broker_heartbeats),
damaged AS (SELECT DISTINCT recording, node_id FROM ingested_files WHERE damage IS NOT NULL),
absent AS (
    SELECT gaps.recording, gaps.node_id FROM log_gaps AS gaps
    JOIN brokers ON brokers.recording = gaps.recording AND brokers.node_id = gaps.node_id
    WHERE evidence = 'no_log'
),
of_brokers AS (
    SELECT DISTINCT summed.recording, rule FROM summed
    JOIN brokers ON brokers.recording = summed.recording AND brokers.node_id = summed.node_id
)
SELECT summed.recording, rule, summed.node_id FROM summed
JOIN damaged ON damaged.recording = summed.recording AND damaged.node_id = summed.node_id
UNION
SELECT absent.recording, rule, absent.node_id FROM absent
JOIN of_brokers ON of_brokers.recording = absent.recording
