-- Nodes that have a log, the active controller first: who responded to most heartbeats. Clocks are
-- compared of those that send heartbeats or respond to them.
SELECT recording, node_id, count(is_responded) > 0 AS is_compared
FROM (
    SELECT recording, node_id, error_code = 0 AS is_responded FROM broker_heartbeats
    WHERE error_code = 0
    UNION ALL
    SELECT DISTINCT recording, broker_id, FALSE FROM broker_heartbeats
    UNION ALL
    SELECT DISTINCT recording, node_id, NULL FROM ingested_files WHERE requests > 0
) AS known
SEMI JOIN (SELECT recording, node_id FROM ingested_files WHERE requests > 0) AS logged
USING (recording, node_id)
GROUP BY recording, node_id
ORDER BY recording, count_if(is_responded) DESC, node_id
