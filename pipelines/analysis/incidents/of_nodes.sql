-- Nodes that froze, restarted, stopped or died, and controllers that handed over. What follows is a
-- node's silence in its own log, as long as no other node hears of it either, while one that did goes on.
CREATE TEMP MACRO or_never(us) AS coalesce(us, 9000000000000000);
WITH lines AS (
    SELECT recording, node_id, unix_micros(completed_at) AS at_us, request_id,
        lag(unix_micros(completed_at)) OVER of_node AS before_us, lag(request_id) OVER of_node AS before_id,
        max(unix_micros(completed_at)) OVER (PARTITION BY recording, node_id) AS last_us
    FROM requests WINDOW of_node AS (PARTITION BY recording, node_id ORDER BY completed_at, request_id)
),
pauses AS (
    SELECT recording, node_id, before_us AS begin_us, at_us AS end_us, before_id AS request_id
    FROM lines WHERE at_us > before_us + $silent_seconds_min * 1000000
    UNION ALL SELECT recording, node_id, at_us, CAST(NULL AS BIGINT), request_id FROM lines WHERE at_us = last_us
),
-- Requests of a node in the logs of others.
heard AS (
    SELECT recording, fetches.node_id AS by_id, replica_id AS node_id, unix_micros(received_at) AS at_us, request_id
    FROM fetches WHERE replica_id >= 0
    UNION ALL SELECT recording, node_id, broker_id, unix_micros(received_at), request_id FROM broker_heartbeats
),
witnesses AS (
    SELECT p.recording, p.node_id, p.begin_us, p.end_us, p.request_id, h.by_id,
        count(*) FILTER (WHERE h.at_us <= p.begin_us + 1000000) AS before,
        count(*) FILTER (WHERE h.at_us > p.begin_us + 1000000) AS during
    FROM pauses AS p JOIN heard AS h ON h.recording = p.recording AND h.node_id = p.node_id AND h.by_id <> p.node_id
        AND h.at_us > p.begin_us - 10000000 AND h.at_us < or_never(p.end_us - 1000000)
    GROUP BY p.recording, p.node_id, p.begin_us, p.end_us, p.request_id, h.by_id
),
-- Witnesses that go on: they have lines of the middle, and none is missing.
going_on AS (
    SELECT w.recording, w.node_id, w.begin_us, w.by_id
    FROM witnesses AS w JOIN requests AS r ON r.recording = w.recording AND r.node_id = w.by_id
    WHERE w.before >= 2 AND unix_micros(r.completed_at) BETWEEN w.begin_us + 1000000
        AND or_never(w.end_us) - 1000000
    GROUP BY w.recording, w.node_id, w.begin_us, w.by_id
    HAVING max(unix_micros(r.completed_at)) >= w.begin_us + $silent_seconds_min * 500000
),
-- Whose lines are missing may have heard of it.
gaps AS (
    SELECT recording, node_id, coalesce(unix_micros(after_at), 0) AS from_us,
        or_never(unix_micros(before_at)) AS until_us
    FROM log_gaps
),
silences AS (
    SELECT w.recording, w.node_id, w.begin_us, w.end_us, w.request_id
    FROM witnesses AS w
        LEFT JOIN going_on AS o ON o.recording = w.recording AND o.node_id = w.node_id AND o.begin_us = w.begin_us
            AND o.by_id = w.by_id
        LEFT JOIN gaps AS g ON g.recording = w.recording
            AND g.from_us < or_never(w.end_us) AND g.until_us > w.begin_us
    GROUP BY w.recording, w.node_id, w.begin_us, w.end_us, w.request_id
    HAVING max(during) = 0 AND count(o.by_id) FILTER (WHERE g.node_id IS NULL) > 0
),
-- Processes of brokers, each under an epoch of its own.
lives AS (
    SELECT *, lead(unfenced_us) OVER of_broker AS next_unfenced_us, lead(first_us) OVER of_broker AS next_first_us
    FROM (
        SELECT recording, broker_id AS node_id, broker_epoch, min(unix_micros(received_at)) AS first_us,
            max(unix_micros(received_at)) AS last_us, max_by(request_id, (received_at, request_id)) AS last_id,
            min(unix_micros(received_at)) FILTER (WHERE want_shut_down) AS requested_us,
            min_by(request_id, (received_at, request_id)) FILTER (WHERE want_shut_down) AS requested_id,
            min(unix_micros(built_at)) FILTER (WHERE NOT is_fenced) AS unfenced_us
        FROM broker_heartbeats WHERE error_code = 0 GROUP BY recording, broker_id, broker_epoch) AS each
    WINDOW of_broker AS (PARTITION BY recording, node_id ORDER BY broker_epoch)
),
-- A controller registers when it comes back, and resigns where it leads. What else one does before
-- it stops, no line says.
registered AS (
    SELECT recording, TRY_CAST(client_id AS INT) AS node_id, unix_micros(received_at) AS at_us,
        lag(unix_micros(received_at)) OVER (PARTITION BY recording, client_id ORDER BY received_at) AS before_us
    FROM requests WHERE api_name = 'CONTROLLER_REGISTRATION'
),
resigned AS (
    SELECT recording, node_id, at_us, request_id FROM (
        SELECT recording, TRY_CAST(replace(client_id, 'raft-client-', '') AS INT) AS node_id,
            unix_micros(received_at) AS at_us, request_id,
            lag(unix_micros(received_at)) OVER (PARTITION BY recording, client_id ORDER BY received_at, request_id) AS before_us
        FROM requests WHERE api_name = 'END_QUORUM_EPOCH') AS each
    WHERE before_us IS NULL OR at_us > before_us + 5000000
),
back AS (
    SELECT r.recording, r.node_id, r.at_us, max(e.at_us) AS resigned_us, max_by(e.request_id, e.at_us) AS resigned_id
    FROM registered AS r LEFT JOIN resigned AS e ON e.recording = r.recording AND e.node_id = r.node_id
        AND e.at_us < r.at_us AND e.at_us > coalesce(r.before_us, 0)
    GROUP BY r.recording, r.node_id, r.at_us
),
downs AS (
    SELECT l.recording, 'broker' AS role, l.node_id,
        CASE WHEN requested_us IS NOT NULL OR count(g.node_id) = 0 THEN requested_us IS NOT NULL END AS is_planned,
        coalesce(requested_us, min(s.begin_us), last_us) AS begin_us, coalesce(next_unfenced_us, next_first_us) AS end_us,
        coalesce(requested_id, min_by(s.request_id, s.begin_us), last_id) AS request_id,
        CASE WHEN next_first_us IS NOT NULL THEN 'node_restarted' WHEN requested_us IS NOT NULL THEN 'node_stopped'
            ELSE 'node_died' END AS kind
    FROM lives AS l LEFT JOIN silences AS s ON s.recording = l.recording AND s.node_id = l.node_id
        AND s.begin_us >= l.last_us - 3000000 AND s.begin_us < or_never(l.next_first_us)
        LEFT JOIN gaps AS g ON g.recording = l.recording AND g.from_us < or_never(l.next_first_us)
            AND g.until_us > l.last_us
    GROUP BY l.recording, l.node_id, broker_epoch, requested_us, requested_id, last_us, last_id, next_unfenced_us, next_first_us
    HAVING requested_us IS NOT NULL OR next_first_us IS NOT NULL OR count(s.node_id) > count(s.end_us)
    UNION ALL SELECT b.recording, 'controller', b.node_id, b.resigned_us IS NOT NULL OR NULL,
        coalesce(b.resigned_us, min(s.begin_us)), b.at_us, coalesce(b.resigned_id, min_by(s.request_id, s.begin_us)),
        'node_restarted'
    FROM back AS b LEFT JOIN silences AS s ON s.recording = b.recording AND s.node_id = b.node_id
        AND b.at_us BETWEEN s.begin_us AND or_never(s.end_us) + 15000000
    GROUP BY b.recording, b.node_id, b.at_us, b.resigned_us, b.resigned_id HAVING b.resigned_us IS NOT NULL OR count(s.node_id) > 0
),
-- Planned restarts of nodes of one role, each after the one before it has ended, are one.
in_turn AS (
    SELECT *, sum(CASE WHEN begin_us BETWEEN before_us AND before_us + 120000000 THEN 0 ELSE 1 END)
        OVER (PARTITION BY recording, role ORDER BY begin_us, node_id ROWS UNBOUNDED PRECEDING) AS turn
    FROM (
        SELECT *, max(end_us) OVER (PARTITION BY recording, role ORDER BY begin_us, node_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_us
        FROM downs WHERE kind = 'node_restarted' AND is_planned) AS each
),
restarts AS (
    SELECT recording, CASE WHEN count(*) = 1 THEN 'node_restarted' ELSE 'rolling_restart' END AS kind, true AS is_planned,
        min(begin_us) AS begin_us, max(end_us) AS end_us,
        sort_array(collect_list(CASE WHEN place = 1 THEN role || ' ' || CAST(node_id AS STRING) END)) AS nodes, count(*) AS count,
        max(end_us - begin_us) AS worst_us, CASE WHEN count(*) = 1 THEN max(node_id) END AS one_node_id,
        min_by(request_id, (begin_us, request_id)) AS request_id
    FROM (SELECT *, row_number() OVER (PARTITION BY recording, role, turn, node_id ORDER BY begin_us) AS place FROM in_turn) AS each
    GROUP BY recording, role, turn
),
-- Who leads the metadata log, in which epoch.
leaders AS (
    SELECT *, lag(node_id) OVER of_epoch AS before_id, lag(last_us) OVER of_epoch AS before_us,
        lag(last_id) OVER of_epoch AS last_before_id
    FROM (
        SELECT recording, leader_epoch, min(node_id) AS node_id, min(built_us) AS first_us, max(built_us) AS last_us,
            max_by(request_id, (built_us, request_id)) AS last_id
        FROM (
            SELECT recording, node_id, unix_micros(built_at) AS built_us, request_id,
                (get(request_partitions, 0)).current_leader_epoch AS leader_epoch
            FROM fetches
            WHERE is_cluster_metadata AND error_code = 0 AND (get(response_partitions, 0)).error_code = 0) AS served
        WHERE leader_epoch >= 0 GROUP BY recording, leader_epoch) AS each
    WINDOW of_epoch AS (PARTITION BY recording ORDER BY leader_epoch)
),
-- A handover after which the controller does not come back, and one that nobody requested.
handovers AS (
    SELECT l.recording, CASE WHEN count(b.node_id) = 0 THEN 'controller_handover' ELSE 'node_restarted' END AS kind,
        count(e.node_id) > 0 AS is_planned, coalesce(max(e.at_us), l.before_us) AS begin_us,
        coalesce(min(b.at_us), l.first_us) AS end_us, l.before_id AS node_id, coalesce(max_by(e.request_id, e.at_us), l.last_before_id) AS request_id
    FROM leaders AS l
        LEFT JOIN resigned AS e ON e.recording = l.recording AND e.node_id = l.before_id
            AND e.at_us BETWEEN l.before_us - 5000000 AND l.first_us
        LEFT JOIN back AS b ON b.recording = l.recording AND b.node_id = l.before_id
            AND b.at_us BETWEEN l.first_us AND l.first_us + 120000000
        LEFT JOIN downs AS d ON d.recording = l.recording AND d.node_id = l.before_id
            AND l.first_us BETWEEN d.begin_us AND d.end_us + 1000000
        LEFT JOIN gaps AS g ON g.recording = l.recording AND g.from_us < l.first_us AND g.until_us > l.before_us
            AND g.node_id NOT IN (SELECT broker_id FROM broker_heartbeats WHERE broker_id IS NOT NULL)
    WHERE l.before_id <> l.node_id
    GROUP BY l.recording, l.leader_epoch, l.before_us, l.first_us, l.before_id, l.last_before_id
    HAVING count(d.node_id) = 0 AND (count(e.node_id) > 0 OR count(g.recording) = 0)
),
freezes AS (
    SELECT s.recording, s.node_id, s.begin_us, s.end_us, s.request_id
    FROM silences AS s LEFT JOIN downs AS d ON d.recording = s.recording AND d.node_id = s.node_id
        AND d.begin_us < s.end_us AND or_never(d.end_us) > s.begin_us
    WHERE s.end_us IS NOT NULL
    GROUP BY s.recording, s.node_id, s.begin_us, s.end_us, s.request_id HAVING count(d.node_id) = 0
),
-- Fenced without a shutdown and without a silence: its heartbeats did not come, or a disk failed.
heartbeats AS (
    SELECT recording, broker_id AS node_id, unix_micros(built_at) AS at_us, request_id, is_fenced, want_shut_down,
        lag(is_fenced) OVER (PARTITION BY recording, broker_id, broker_epoch ORDER BY built_at, request_id) AS was_fenced,
        min(CASE WHEN NOT is_fenced THEN unix_micros(built_at) END) OVER (
            PARTITION BY recording, broker_id, broker_epoch ORDER BY built_at, request_id
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS unfenced_us
    FROM broker_heartbeats WHERE error_code = 0
),
fencings AS (
    SELECT b.recording, b.node_id, b.at_us, b.unfenced_us, b.request_id
    FROM heartbeats AS b LEFT JOIN silences AS s ON s.recording = b.recording AND s.node_id = b.node_id
        AND s.begin_us < b.at_us AND or_never(s.end_us) > b.at_us - 10000000
    WHERE is_fenced AND NOT was_fenced AND NOT want_shut_down
    GROUP BY b.recording, b.node_id, b.at_us, b.unfenced_us, b.request_id HAVING count(s.node_id) = 0
),
others AS (
    SELECT recording, kind, is_planned, begin_us, end_us, node_id, request_id FROM downs
    WHERE kind <> 'node_restarted' OR is_planned IS DISTINCT FROM true
    UNION ALL SELECT recording, 'node_froze', false, begin_us, end_us, node_id, request_id FROM freezes
    UNION ALL SELECT recording, 'node_fenced', false, at_us, unfenced_us, node_id, request_id FROM fencings
    UNION ALL SELECT recording, kind, is_planned, begin_us, end_us, node_id, request_id FROM handovers
),
brokers AS (SELECT DISTINCT recording, node_id FROM lives),
found AS (
    SELECT * FROM restarts
    UNION ALL SELECT o.recording, kind, is_planned, begin_us, end_us,
        [CASE WHEN b.node_id IS NULL THEN 'controller ' ELSE 'broker ' END || CAST(o.node_id AS STRING)], 1, end_us - begin_us,
        o.node_id, request_id
    FROM others AS o LEFT JOIN brokers AS b ON b.recording = o.recording AND b.node_id = o.node_id
)
SELECT recording, kind, is_planned, begin_us, end_us, nodes AS subjects, CAST(count AS BIGINT) AS count,
    CAST(NULL AS BIGINT) AS population, worst_us / 1e6 AS worst_s, CAST(NULL AS STRING) AS cause,
    CAST(NULL AS STRING) AS caused_by, one_node_id AS node_id, CAST(NULL AS STRING[]) AS clients, request_id
FROM found
