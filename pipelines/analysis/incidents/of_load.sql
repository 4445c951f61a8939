-- Nodes that have too much to do: for 20 s or longer requests wait for a handler, in it, or for a network thread.
CREATE TEMP MACRO first_five(place, name) AS list_transform(sort_array(collect_list(
    CASE WHEN place <= 5 THEN {'place': place, 'name': name} END)), lambda each: each.name);
CREATE TEMP MACRO us(ms) AS CAST(round(ms * 1000) AS BIGINT);
WITH sent AS (
    SELECT r.recording, r.node_id, unix_micros(received_at) AS received_us, unix_micros(completed_at) AS completed_us,
        unix_micros(received_at) // 10000000 AS place, request_id, coalesce(client_id, '(no client id)') AS client,
        c.connection IS NOT NULL AS is_client,
        us(request_queue_ms) AS queue_us, us(local_ms) AS local_us, us(response_queue_ms) AS response_us
    FROM requests AS r
        JOIN health_spans AS h ON h.recording = r.recording AND unix_micros(received_at) >= from_us
        AND unix_micros(received_at) < until_us
        LEFT JOIN client_connections AS c
        ON c.recording = r.recording AND c.node_id = r.node_id AND c.connection = r.connection
),
windows AS (
    SELECT recording, node_id, place, sum(queue_us) / count(queue_us) AS queue_us,
        sum(local_us) / count(local_us) AS local_us, sum(response_us) / count(response_us) AS response_us
    FROM sent GROUP BY recording, node_id, place HAVING count(*) >= 100
),
slow AS (
    SELECT recording, node_id, place, 'request queue' AS cause, queue_us AS mean_us FROM windows
    UNION ALL SELECT recording, node_id, place, 'local', local_us FROM windows
    UNION ALL SELECT recording, node_id, place, 'response queue', response_us FROM windows
),
spans AS (
    SELECT recording, node_id, cause, min(place) AS first, max(place) AS last, max(mean_us) / 1e6 AS worst_s
    FROM (SELECT *, place - row_number() OVER (PARTITION BY recording, node_id, cause ORDER BY place) AS island
        FROM slow WHERE mean_us >= $saturated_ms_min * 1000) AS each
    GROUP BY recording, node_id, cause, island HAVING count(*) >= 2
),
waits AS (
    SELECT s.recording, s.node_id, s.cause, s.first, s.worst_s, r.received_us, r.completed_us, r.request_id, r.client, r.is_client,
        CASE s.cause WHEN 'local' THEN local_us WHEN 'request queue' THEN queue_us ELSE response_us END AS waited_us
    FROM spans AS s JOIN sent AS r ON r.recording = s.recording AND r.node_id = s.node_id AND r.place BETWEEN s.first AND s.last
),
clients AS (
    SELECT recording, node_id, cause, first, first_five(place, client) AS clients
    FROM (SELECT recording, node_id, cause, first, client, row_number() OVER (
                PARTITION BY recording, node_id, cause, first ORDER BY sum(waited_us) DESC, client) AS place
        FROM waits WHERE is_client GROUP BY recording, node_id, cause, first, client) AS each
    GROUP BY recording, node_id, cause, first
)
SELECT w.recording, 'saturated' AS kind, false AS is_planned, min(received_us) AS begin_us, max(completed_us) AS end_us,
    [CAST(w.node_id AS STRING)] AS subjects, count(*) AS count, CAST(NULL AS BIGINT) AS population, w.worst_s, w.cause,
    CAST(NULL AS STRING) AS caused_by, w.node_id, c.clients, min_by(request_id, (received_us, request_id)) AS request_id
FROM waits AS w LEFT JOIN clients AS c ON c.recording = w.recording AND c.node_id = w.node_id
    AND c.cause = w.cause AND c.first = w.first
GROUP BY w.recording, w.node_id, w.cause, w.first, w.worst_s, c.clients
