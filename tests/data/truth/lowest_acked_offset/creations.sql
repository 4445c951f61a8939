-- What is known of a topic's creation on each broker, and when a client saw it there. A topic may be
-- created more than once: the client's request nearest to the write is the one.
--
-- A client names a broker for its poll, and its library may use another one. So it saw the topic in
-- the METADATA response that was built last before, whichever broker's that is.
WITH created AS (
    SELECT recording, request_id, received_at, resource.name AS topic
    FROM (SELECT *, unnest(resources) AS resource FROM metadata_writes
        WHERE api_name = 'CREATE_TOPICS' AND error_code = 0)
    WHERE resource.resource_type = 'topic' AND resource.error_code = 0
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
    SELECT v.*, created.topic, requested_at, visible_at, dequeued_at,
        row_number() OVER (
            PARTITION BY v.recording, variant, parameter, parameter_value, v.request_id,
                v.broker_id, evidence, created.topic
            ORDER BY abs(unix_micros(requested_at) - unix_micros(received_at)), requested_at,
                visible_at
        ) AS place
    FROM metadata_write_visibility AS v
    JOIN created ON created.recording = v.recording AND created.request_id = v.request_id
    LEFT JOIN polled ON polled.recording = v.recording
        AND polled.topic = created.topic AND polled.broker_id = v.broker_id
)
SELECT * FROM ranked WHERE place = 1
