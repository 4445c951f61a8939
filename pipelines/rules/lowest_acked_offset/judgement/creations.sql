-- What is known of a topic's creation on each broker, when a request next deleted the topic, and
-- what the client of that broker saw of it. A topic may be created more than once: the client's
-- request nearest to the write is the one.
WITH topics_of AS (
    SELECT recording, request_id, api_name, error_code, received_at, unnest(resources) AS resource
    FROM metadata_writes WHERE api_name IN ('CREATE_TOPICS', 'DELETE_TOPICS')
),
followed AS (
    SELECT *, resource.name AS topic,
        min(CASE api_name WHEN 'DELETE_TOPICS' THEN received_at END) OVER (
            PARTITION BY recording, resource.name ORDER BY received_at, api_name DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS deleted_at
    FROM topics_of
),
ranked AS (
    SELECT v.*, followed.topic, deleted_at, requested_at, visible_at,
        row_number() OVER (
            PARTITION BY v.recording, variant, parameter, parameter_value, v.request_id,
                v.broker_id, evidence, followed.topic
            ORDER BY abs(unix_micros(requested_at) - unix_micros(received_at)), requested_at
        ) AS place
    FROM metadata_write_visibility AS v
    JOIN followed ON followed.recording = v.recording AND followed.request_id = v.request_id
    LEFT JOIN client_observations AS seen ON seen.recording = v.recording
        AND seen.topic = followed.topic AND seen.broker_id = v.broker_id AND operation = 'create'
    WHERE api_name = 'CREATE_TOPICS' AND error_code = 0
        AND resource.resource_type = 'topic' AND resource.error_code = 0
)
SELECT * FROM ranked WHERE place = 1
