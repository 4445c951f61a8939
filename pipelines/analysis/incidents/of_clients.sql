-- What clients met: topics that are not there, requests that failed, were refused or throttled; and what
-- clients did: storms of connections. Requests of brokers and controllers are not in it.
CREATE TEMP MACRO first_five(place, name) AS list_transform(sort_array(collect_list(
    CASE WHEN place <= 5 THEN {'place': place, 'name': name} END)), lambda each: each.name);
WITH sent AS (
    SELECT r.recording, request_id, r.node_id, coalesce(client_id, '(no client id)') AS client, api_name, principal,
        unix_micros(received_at) AS received_us, unix_micros(completed_at) AS completed_us, throttle_ms,
        r.connection, address, opened_us, last_us, opened_us >= from_us AS is_new
    FROM requests AS r
        JOIN client_connections AS c
        ON c.recording = r.recording AND c.node_id = r.node_id AND c.connection = r.connection
        JOIN health_spans AS h ON h.recording = r.recording AND unix_micros(received_at) >= from_us
        AND unix_micros(received_at) < until_us
),
-- Connections that live shorter than 10 s, and when the 30th before was opened.
opened AS (
    SELECT recording, client, node_id, connection, address, opened_us, last_us, last_us < opened_us + 10000000 AS is_brief,
        count(*) FILTER (WHERE api_name = 'METADATA') AS metadata, min_by(request_id, (received_us, request_id)) AS request_id
    FROM sent WHERE is_new GROUP BY recording, client, node_id, connection, address, opened_us, last_us
),
brief AS (
    SELECT recording, client, opened_us, lag(opened_us, 29) OVER (
            PARTITION BY recording, client ORDER BY opened_us, node_id, connection) AS since_us
    FROM opened WHERE is_brief
),
-- One storm until it pauses for a minute.
storms AS (
    SELECT recording, client, min(since_us) AS begin_us, max(opened_us) AS end_us
    FROM (SELECT *, sum(CASE WHEN since_us <= before_us + 60000000 THEN 0 ELSE 1 END) OVER (
                PARTITION BY recording, client ORDER BY opened_us, since_us) AS number
        FROM (SELECT *, lag(opened_us) OVER (PARTITION BY recording, client ORDER BY opened_us, since_us) AS before_us
            FROM brief WHERE (opened_us - since_us) * $storm_connections_per_second_min <= 30e6) AS dense) AS numbered
    GROUP BY recording, client, number
),
-- A client that starts on many hosts opens a few connections from each.
connections AS (
    SELECT recording, client, begin_us, max(last_us) AS end_us, count(*) AS count, CAST(sum(metadata) AS BIGINT) AS population,
        (max(last_us) - begin_us) / 1e6 AS worst_s, min(node_id) AS least_node, max(node_id) AS most_node,
        min_by(request_id, (opened_us, request_id)) AS request_id
    FROM (SELECT o.*, s.begin_us, s.end_us, count(*) OVER (PARTITION BY o.recording, o.client, s.begin_us) AS every
        FROM storms AS s JOIN opened AS o ON o.recording = s.recording AND o.client = s.client
            AND o.opened_us BETWEEN s.begin_us AND s.end_us
        WHERE s.end_us >= s.begin_us + 10000000) AS of_storm
    WHERE is_brief GROUP BY recording, client, begin_us
    HAVING count(*) >= 9e-1 * max(every) AND count(*) >= 10 * count(DISTINCT address)
),
-- Topics that no line has otherwise.
absent AS (
    SELECT recording, topic FROM topics GROUP BY recording, topic HAVING min(error_code) = 3 AND max(error_code) = 3
),
stated AS (
    SELECT recording, request_id, coalesce(p.topic, p.topic_id) AS topic, p.partition AS partition, p.error_code AS error_code,
        get(list_filter(request_partitions, lambda q: q.partition = p.partition
            AND coalesce(q.topic, q.topic_id) = coalesce(p.topic, p.topic_id)), 0).fetch_offset AS fetch_offset
    FROM (SELECT *, explode(list_filter(response_partitions, lambda r: r.error_code <> 0)) AS p
        FROM fetches WHERE replica_id < 0) AS f
    UNION ALL SELECT recording, request_id, NULL, NULL, error_code, NULL FROM fetches WHERE replica_id < 0
    UNION ALL SELECT recording, request_id, coalesce(p.topic, p.topic_id), p.partition, p.error_code, NULL
    FROM (SELECT *, explode(list_filter(partitions, lambda r: r.error_code <> 0)) AS p FROM produces) AS f
    UNION ALL SELECT recording, request_id, w.name, NULL, w.error_code, NULL
    FROM (SELECT *, explode(resources) AS w FROM metadata_writes) AS f
    UNION ALL SELECT recording, request_id, NULL, NULL, error_code, NULL FROM metadata_writes
    UNION ALL SELECT recording, request_id, NULL, NULL, error_code, NULL FROM producer_ids
    UNION ALL SELECT recording, request_id, group_id, NULL, error_code, NULL FROM group_requests
    -- METADATA: a topic that is not there yet, or that has no leader, is no failure
    UNION ALL SELECT t.recording, request_id, t.topic, NULL, CASE WHEN a.topic IS NULL THEN error_code ELSE 3 END, NULL
    FROM topics AS t LEFT JOIN absent AS a ON a.recording = t.recording AND a.topic = t.topic
    WHERE source = 'METADATA' AND (a.topic IS NOT NULL OR error_code = 29)
),
failed AS (
    SELECT s.*, coalesce(name, f.topic) AS topic, f.partition, fetch_offset,
        coalesce(error_name, CAST(f.error_code AS STRING)) AS error,
        CASE WHEN api_name = 'METADATA' AND error_name = 'UNKNOWN_TOPIC_OR_PARTITION' THEN 'missing_topic'
            WHEN error_name IN ('NOT_ENOUGH_REPLICAS', 'NOT_ENOUGH_REPLICAS_AFTER_APPEND') THEN 'not_enough_replicas'
            WHEN error_name IN ('MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE') OR error_name LIKE '%AUTHORIZATION_FAILED'
                OR error_name LIKE '%AUTHENTICATION_FAILED' THEN 'refused'
            ELSE 'failing_requests' END AS sort
    FROM stated AS f JOIN sent AS s ON s.recording = f.recording AND s.request_id = f.request_id
        LEFT JOIN topic_names AS n ON n.recording = f.recording AND topic_id = f.topic
        LEFT JOIN error_names AS e ON e.error_code = f.error_code
    -- What is a protocol's normal course.
    WHERE f.error_code <> 0 AND coalesce(error_name, '') NOT IN ('ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID',
        'REBALANCE_IN_PROGRESS', 'MEMBER_ID_REQUIRED', 'FENCED_MEMBER_EPOCH', 'STALE_MEMBER_EPOCH', 'TOPIC_ALREADY_EXISTS',
        'CONCURRENT_TRANSACTIONS', 'FETCH_SESSION_ID_NOT_FOUND', 'INVALID_FETCH_SESSION_EPOCH', 'FETCH_SESSION_TOPIC_ID_ERROR')
),
-- How long a client meets the same again: after a leader or a coordinator moved only for seconds.
turns AS (
    SELECT *, sum(CASE WHEN received_us <= before_us + 10000000 THEN 0 ELSE 1 END) OVER (
            PARTITION BY recording, client, api_name, error, topic, partition ORDER BY received_us, request_id) AS turn
    FROM (SELECT *, lag(received_us) OVER (
                PARTITION BY recording, client, api_name, error, topic, partition ORDER BY received_us, request_id) AS before_us
        FROM failed) AS each
),
lasting AS (
    SELECT *, max(received_us) OVER of_turn - min(received_us) OVER of_turn AS lasts_us,
        count(*) OVER of_turn > 1 AND coalesce(min(fetch_offset) OVER of_turn = max(fetch_offset) OVER of_turn, false) AS is_again
    FROM turns
    WINDOW of_turn AS (PARTITION BY recording, client, api_name, error, topic, partition, turn)
),
met AS (
    SELECT recording, request_id, node_id, client, api_name, received_us, completed_us, throttle_ms, error, is_again, sort,
        CASE sort WHEN 'missing_topic' THEN topic WHEN 'refused' THEN principal WHEN 'failing_requests' THEN api_name END AS whose,
        CASE WHEN sort <> 'not_enough_replicas' THEN error END AS of_error,
        CASE sort WHEN 'failing_requests' THEN api_name ELSE coalesce(topic, api_name) END AS subject,
        CASE sort WHEN 'refused' THEN principal END AS caused_by,
        CASE sort WHEN 'missing_topic' THEN 1000000000000000 WHEN 'refused' THEN 300000000 ELSE 10000000 END AS apart_us
    FROM lasting
    WHERE lasts_us >= $failing_seconds_min * 1e6 OR error NOT IN ('UNKNOWN_TOPIC_OR_PARTITION', 'LEADER_NOT_AVAILABLE',
        'NOT_LEADER_OR_FOLLOWER', 'REPLICA_NOT_AVAILABLE', 'COORDINATOR_LOAD_IN_PROGRESS', 'COORDINATOR_NOT_AVAILABLE',
        'NOT_COORDINATOR', 'NOT_CONTROLLER', 'FENCED_LEADER_EPOCH', 'UNKNOWN_LEADER_EPOCH', 'OFFSET_NOT_AVAILABLE',
        'UNKNOWN_TOPIC_ID', 'INCONSISTENT_TOPIC_ID') OR sort = 'missing_topic'
    UNION ALL SELECT recording, request_id, node_id, client, api_name, received_us, completed_us, throttle_ms, NULL, false,
        'throttled', client, NULL, client, NULL, 300000000
    FROM sent WHERE throttle_ms > 0
),
spanned AS (
    SELECT *, sum(CASE WHEN received_us <= before_us + apart_us THEN 0 ELSE 1 END) OVER (
            PARTITION BY recording ORDER BY sort, of_error, whose, received_us, request_id) AS number
    FROM (SELECT *, lag(received_us) OVER (
                PARTITION BY recording, sort, of_error, whose ORDER BY received_us, request_id) AS before_us
        FROM met) AS each
),
spans AS (
    SELECT recording, number, sort, min(received_us) AS begin_us, max(received_us) AS last_us, max(completed_us) AS end_us,
        count(DISTINCT request_id) AS count, max(throttle_ms) / 1e3 AS throttled_s, max(caused_by) AS caused_by,
        min_by(error, (received_us, request_id)) || CASE WHEN bool_and(is_again) AND min(node_id) = max(node_id)
            THEN ', the same offset again' ELSE '' END AS cause,
        min(node_id) AS least_node, max(node_id) AS most_node, min_by(request_id, (received_us, request_id)) AS request_id
    FROM spanned GROUP BY recording, number, sort
),
populations AS (
    SELECT s.recording, s.number, count(*) AS population
    FROM spans AS s JOIN (SELECT DISTINCT recording, number, client, api_name FROM spanned) AS c
        ON c.recording = s.recording AND c.number = s.number
        JOIN sent AS r ON r.recording = s.recording AND r.client = c.client AND r.api_name = c.api_name
        AND r.received_us BETWEEN s.begin_us AND s.last_us
    GROUP BY s.recording, s.number
),
named AS (
    SELECT recording, number, 'subject' AS role, subject AS name, request_id, received_us, completed_us FROM spanned
    UNION ALL SELECT recording, number, 'client', client, request_id, received_us, completed_us FROM spanned
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY recording, number, role ORDER BY requests DESC, name) AS place
    FROM (SELECT recording, number, role, name, count(DISTINCT request_id) AS requests,
            (max(completed_us) - min(received_us)) / 1e6 AS lasts_s
        FROM named GROUP BY recording, number, role, name) AS each
),
names AS (
    SELECT recording, number, max(CASE WHEN role = 'subject' THEN lasts_s END) AS worst_s,
        first_five(CASE WHEN role = 'subject' THEN place END, name) AS subjects,
        first_five(CASE WHEN role = 'client' THEN place END, name) AS clients
    FROM ranked GROUP BY recording, number
)
SELECT s.recording, CASE sort WHEN 'refused' THEN 'failing_requests' ELSE sort END AS kind, false AS is_planned, begin_us, end_us,
    subjects, s.count, population, CASE sort WHEN 'throttled' THEN throttled_s ELSE worst_s END AS worst_s,
    cause, caused_by, CASE WHEN least_node = most_node THEN least_node END AS node_id, clients, request_id
FROM spans AS s JOIN populations AS a ON a.recording = s.recording AND a.number = s.number
    JOIN names AS n ON n.recording = s.recording AND n.number = s.number
WHERE CASE sort WHEN 'failing_requests' THEN s.count >= $failing_requests_min AND s.count >= $failing_share_min * population
    WHEN 'missing_topic' THEN s.count >= 3 WHEN 'throttled' THEN s.count >= $failing_requests_min OR throttled_s >= 1 ELSE true END
UNION ALL SELECT recording, 'connection_storm', false, begin_us, end_us, [client], count, population, worst_s,
    NULL, client, CASE WHEN least_node = most_node THEN least_node END, [], request_id
FROM connections
    -- Without all requests of a connection, it seems to live short.
    ANTI JOIN (SELECT recording FROM log_gaps WHERE evidence = 'filtered') AS f USING (recording)
