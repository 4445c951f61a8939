-- Nodes that a rule's rates are sums over, or would be, whose log is missing or ends with damage.
WITH summed AS (SELECT DISTINCT recording, rule, node_id FROM bandwidth_summary),
brokers AS (SELECT DISTINCT recording, broker_id AS node_id FROM broker_heartbeats),
damaged AS (SELECT recording, node_id FROM ingested_files WHERE damage IS NOT NULL),
absent AS (
    SELECT recording, node_id FROM log_gaps SEMI JOIN brokers USING (recording, node_id)
    WHERE evidence IN ('no_log', 'logger_off')
),
of_brokers AS (SELECT recording, rule FROM summed SEMI JOIN brokers USING (recording, node_id))
SELECT recording, rule, node_id FROM summed SEMI JOIN damaged USING (recording, node_id)
UNION
SELECT absent.recording, rule, absent.node_id FROM absent
JOIN of_brokers ON of_brokers.recording = absent.recording
