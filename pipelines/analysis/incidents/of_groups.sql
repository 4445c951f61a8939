-- Rebalances of groups: a generation of the classic protocol, or an epoch of the consumer protocol,
-- after another one of which members stayed: these had to wait for their partitions.
WITH sent AS (
    SELECT recording, node_id, request_id, group_id, member_id, coalesce(client_id, '(no client id)') AS client_id, protocol,
        action, sent_generation, generation, assigned, reason, unix_micros(received_at) AS received_us,
        unix_micros(built_at) AS built_us
    FROM group_requests
    WHERE error_code = 0 AND member_id <> ''
),
-- When a member came into a generation, and when it had its partitions.
moments AS (
    SELECT recording, group_id, protocol, generation, member_id, client_id, node_id, received_us AS joined_us,
        CAST(NULL AS BIGINT) AS assigned_us, request_id, reason
    FROM sent WHERE protocol = 'classic' AND action = 'join'
    UNION ALL SELECT recording, group_id, protocol, sent_generation, member_id, client_id, node_id, NULL, built_us, NULL, NULL
    FROM sent WHERE action = 'sync'
    UNION ALL SELECT recording, group_id, protocol, generation, member_id, client_id, node_id, received_us,
        CASE WHEN assigned IS NOT NULL THEN built_us END, request_id, NULL
    FROM sent WHERE protocol = 'consumer' AND generation > 0
),
members AS (
    SELECT recording, group_id, max(protocol) AS protocol, generation, member_id, max(client_id) AS client_id, max(node_id) AS node_id,
        min(joined_us) AS joined_us, max(assigned_us) AS assigned_us, min_by(request_id, (joined_us, request_id)) FILTER (WHERE joined_us IS NOT NULL) AS request_id,
        max(reason) AS reason
    FROM moments GROUP BY recording, group_id, generation, member_id
),
generations AS (
    SELECT *, lag(generation) OVER of_group AS before, max(assigned_us) OVER earlier AS before_us,
        lead(generation) OVER of_group AS next
    FROM (
        SELECT recording, group_id, max(protocol) AS protocol, generation, max(node_id) AS node_id,
            min(joined_us) AS joined_us, max(assigned_us) AS assigned_us,
            min_by(request_id, (joined_us, request_id)) FILTER (WHERE joined_us IS NOT NULL) AS request_id
        FROM members GROUP BY recording, group_id, generation) AS each
    WINDOW of_group AS (PARTITION BY recording, group_id ORDER BY generation),
        earlier AS (PARTITION BY recording, group_id ORDER BY generation ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
-- Members of either of two generations: who came, who stayed, who went.
compared AS (
    SELECT g.recording, g.group_id, g.generation, m.member_id, max(m.client_id) AS client_id,
        bool_or(m.generation = g.before) AS was_in, bool_or(m.generation = g.generation) AS is_in,
        min(m.joined_us) FILTER (WHERE m.generation = g.generation) AS joined_us,
        max(m.reason) FILTER (WHERE m.generation = g.generation) AS reason
    FROM generations AS g JOIN members AS m ON m.recording = g.recording AND m.group_id = g.group_id
        AND (m.generation = g.generation OR m.generation = g.before)
    WHERE g.before IS NOT NULL GROUP BY g.recording, g.group_id, g.generation, m.member_id
),
-- The first line that shows it: a member that joins or leaves, or one that has to join again.
shown AS (
    SELECT g.recording, g.group_id, g.generation, s.client_id, s.received_us, s.request_id, s.reason, s.action
    FROM generations AS g JOIN sent AS s ON s.recording = g.recording AND s.group_id = g.group_id
        AND s.action = 'leave' AND s.received_us BETWEEN g.before_us AND g.assigned_us
    UNION ALL SELECT g.recording, g.group_id, g.generation, s.client_id, unix_micros(s.received_at), s.request_id,
        NULL, 'rejoin'
    FROM generations AS g JOIN group_requests AS s ON s.recording = g.recording AND s.group_id = g.group_id
        AND s.action = 'heartbeat' AND s.sent_generation = g.before AND s.error_code = 27 -- REBALANCE_IN_PROGRESS
    WHERE unix_micros(s.received_at) <= g.assigned_us
    UNION ALL SELECT recording, group_id, generation, NULL, joined_us, request_id, NULL, 'join' FROM generations
),
firsts AS (
    SELECT recording, group_id, generation, min(received_us) AS begin_us,
        min_by(request_id, (received_us, request_id)) FILTER (WHERE received_us IS NOT NULL) AS request_id,
        min_by(client_id, (received_us, client_id)) FILTER (WHERE action = 'leave') AS left_by,
        max(reason) FILTER (WHERE action = 'leave') AS reason,
        count(*) FILTER (WHERE action = 'leave') > 0 AS has_left
    FROM shown GROUP BY recording, group_id, generation
),
causes AS (
    SELECT recording, group_id, generation, count(*) FILTER (WHERE was_in AND is_in) AS stayed,
        count(*) FILTER (WHERE is_in) AS members,
        sort_array(collect_list(CASE WHEN was_in AND is_in THEN client_id END)) AS clients,
        min_by(client_id, (joined_us, client_id)) FILTER (WHERE is_in AND NOT was_in AND joined_us IS NOT NULL) AS joined_by,
        max(client_id) FILTER (WHERE was_in AND NOT is_in) AS lost_by,
        min_by(client_id, (joined_us, client_id)) FILTER (WHERE is_in AND joined_us IS NOT NULL) AS first_by, max(reason) AS reason,
        count(*) FILTER (WHERE is_in AND NOT was_in) > 0 AS has_joined,
        count(*) FILTER (WHERE was_in AND NOT is_in) > 0 AS has_lost
    FROM compared GROUP BY recording, group_id, generation
)
SELECT g.recording, 'rebalance' AS kind, false AS is_planned, begin_us, g.assigned_us AS end_us,
    [g.group_id] AS subjects, c.members AS count, CAST(NULL AS BIGINT) AS population,
    (g.assigned_us - begin_us) / 1e6 AS worst_s,
    CASE WHEN has_left THEN 'leave' WHEN has_joined THEN 'join' WHEN has_lost THEN 'lost' ELSE 'rejoin' END
        || coalesce(': ' || coalesce(f.reason, c.reason), '') AS cause,
    CASE WHEN has_left THEN left_by WHEN has_joined THEN joined_by WHEN has_lost THEN lost_by ELSE first_by END AS caused_by,
    g.node_id, c.clients, f.request_id
FROM generations AS g
    JOIN causes AS c ON c.recording = g.recording AND c.group_id = g.group_id AND c.generation = g.generation
    JOIN firsts AS f ON f.recording = g.recording AND f.group_id = g.group_id AND f.generation = g.generation
-- A generation that another took the place of at once, and an epoch that moved no partition, made nobody wait.
WHERE stayed > 0 AND (g.assigned_us IS NOT NULL OR (g.next IS NULL AND g.protocol = 'classic'))
