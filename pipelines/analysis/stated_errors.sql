-- Errors of requests, as far as bodies are read: of a topic or another resource, else (null) of all of it.
WITH fetched AS (
    SELECT recording, request_id, is_cluster_metadata, explode(response_partitions) AS of_topic FROM fetches
),
produced AS (SELECT recording, request_id, explode(partitions) AS of_topic FROM produces),
written AS (SELECT recording, request_id, explode(resources) AS of_topic FROM metadata_writes),
stated AS (
    SELECT recording, request_id, CAST(NULL AS STRING) AS subject, error_code FROM fetches
    UNION ALL SELECT recording, request_id, CASE WHEN is_cluster_metadata THEN '__cluster_metadata'
        ELSE coalesce(of_topic.topic, of_topic.topic_id) END, of_topic.error_code FROM fetched
    UNION ALL SELECT recording, request_id, coalesce(of_topic.topic, of_topic.topic_id), of_topic.error_code FROM produced
    UNION ALL SELECT recording, request_id, of_topic.name, of_topic.error_code FROM written
    UNION ALL SELECT recording, request_id, NULL, error_code FROM metadata_writes
    UNION ALL SELECT recording, request_id, topic, error_code FROM topics
    UNION ALL SELECT recording, request_id, topic, error_code FROM isr_changes
    UNION ALL SELECT recording, request_id, NULL, error_code FROM producer_ids
    UNION ALL SELECT recording, request_id, NULL, error_code FROM group_requests
    UNION ALL SELECT recording, request_id, NULL, error_code FROM broker_heartbeats
)
SELECT DISTINCT recording, request_id, subject, error_code FROM stated WHERE error_code <> 0
