-- What lines state of min.insync.replicas of topics, and (topic empty) of the brokers' default, where
-- broker says so of that one. is_default: the topic has none of its own (config_source 1). A dedicated
-- controller describes its own default: that of brokers is from nodes that lead partitions.
WITH stated AS (
    SELECT recording, request_id, node_id, built_at, source, resource_type, resource_name, operation,
        value, operation = 'describe' AND coalesce(config_source, 1) > 1 AS is_default
    FROM configs
    WHERE name = 'min.insync.replicas' AND resource_type IN ('topic', 'broker')
        AND coalesce(error_code, 0) = 0
    UNION ALL
    -- Created, or configured whole, without it.
    SELECT w.recording, w.request_id, w.node_id, w.built_at, api_name, 'topic', resource.name,
        'delete', NULL, FALSE
    FROM (
        SELECT *, explode(resources) AS resource FROM metadata_writes
        WHERE api_name IN ('CREATE_TOPICS', 'ALTER_CONFIGS') AND NOT coalesce(validate_only, FALSE)
    ) AS w
    ANTI JOIN configs AS c ON c.recording = w.recording AND c.request_id = w.request_id
        AND c.resource_name = resource.name AND c.name = 'min.insync.replicas' AND operation = 'set'
    WHERE resource.resource_type = 'topic' AND coalesce(resource.error_code, 0) = 0
        AND resource.configs IS NOT NULL
)
SELECT recording, request_id, node_id, built_at, source, resource_name AS topic, operation, value,
    is_default, '' AS broker
FROM stated WHERE resource_type = 'topic'
UNION ALL
SELECT s.recording, request_id, s.node_id, built_at, source, '', operation, value, FALSE,
    CASE WHEN operation = 'describe' THEN '' ELSE resource_name END
FROM stated AS s LEFT JOIN (SELECT DISTINCT recording, node_id FROM produces) AS leaders
ON leaders.recording = s.recording AND leaders.node_id = s.node_id
WHERE CASE WHEN operation = 'describe' THEN leaders.node_id IS NOT NULL AND source = 'DESCRIBE_CONFIGS'
    AND (is_default OR resource_type = 'broker') ELSE resource_type = 'broker' END
