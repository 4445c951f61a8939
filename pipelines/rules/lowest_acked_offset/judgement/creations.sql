-- What is known of a topic's creation on each broker, when a request next deleted the topic, and
-- when a client saw it there. A topic may be created more than once: the client's request nearest to
-- the write is the one.
--
-- A client names a broker for its poll, and its library may use another one. So it saw the topic in
-- the METADATA response that was built last before, whichever broker's that is.
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
polled AS (
    SELECT recording, topic, requested_at, visible_at,
        max_by(shows.node_id, shows.built_at) AS broker_id,
        max_by(dequeued_at, shows.built_at) AS dequeued_at
    FROM client_observations AS seen
    JOIN topics AS shows USING (recording, topic) JOIN requests USING (recording, request_id)
    WHERE operation = 'create' AND source = 'METADATA' AND shows.error_code = 0
        AND shows.built_at BETWEEN requested_at AND visible_at
    GROUP BY recording, topic, seen.broker_id, requested_at, visible_at
),
ranked AS (
    SELECT v.*, followed.topic, deleted_at, requested_at, visible_at, dequeued_at,
        row_number() OVER (
            PARTITION BY v.recording, variant, parameter, parameter_value, v.request_id,
                v.broker_id, evidence, followed.topic
            ORDER BY abs(unix_micros(requested_at) - unix_micros(received_at)), requested_at,
                visible_at
        ) AS place
    FROM metadata_write_visibility AS v
    JOIN followed ON followed.recording = v.recording AND followed.request_id = v.request_id
    LEFT JOIN polled ON polled.recording = v.recording
        AND polled.topic = followed.topic AND polled.broker_id = v.broker_id
    WHERE api_name = 'CREATE_TOPICS' AND error_code = 0
        AND resource.resource_type = 'topic' AND resource.error_code = 0
)
SELECT * FROM ranked WHERE place = 1
