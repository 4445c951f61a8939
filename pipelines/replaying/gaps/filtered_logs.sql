-- Logs that lack all lines of a kind, so that no number is skipped: in one leader's epoch, others' lines
-- or its own show for ten seconds or more that these were sent. Who led in an epoch sends none in it.
--   * A broker that sends heartbeats to an active controller fetches the metadata log from it, and the
--     other way round; and so does a voter that runs, as its own log shows.
--   * Who is in an ISR, and goes on sending heartbeats, fetches what is appended.
--   * Who is in an ISR, and was not before, was added to it by an ALTER_PARTITION.
WITH fetching AS (
    SELECT recording, node_id, leader_epoch, replica_id, min(received_at) AS first_at,
        max(received_at) AS last_at
    FROM logged_fetches WHERE is_metadata AND leader_epoch IS NOT NULL AND replica_id >= 0
    GROUP BY recording, node_id, leader_epoch, replica_id
),
epochs AS (
    SELECT recording, node_id, leader_epoch, min(first_at) AS first_at, max(last_at) AS last_at
    FROM fetching GROUP BY recording, node_id, leader_epoch
),
heartbeats AS (
    SELECT e.recording, e.node_id, leader_epoch, broker_id AS replica_id, min(received_at) AS first_at,
        max(received_at) AS last_at, max(received_at) FILTER (WHERE NOT is_fenced) AS unfenced_at
    FROM broker_heartbeats AS h JOIN epochs AS e ON e.recording = h.recording
        AND e.node_id = h.node_id AND received_at >= first_at AND received_at <= last_at
    WHERE error_code = 0 GROUP BY e.recording, e.node_id, leader_epoch, broker_id
),
running AS (
    SELECT e.recording, e.node_id, leader_epoch, voter AS replica_id, min(received_at) AS first_at,
        max(received_at) AS last_at
    FROM epochs AS e JOIN voters AS v ON v.recording = e.recording
    JOIN logged_requests AS r ON r.recording = e.recording AND r.node_id = voter
        AND received_at >= first_at AND received_at <= last_at
    GROUP BY e.recording, e.node_id, leader_epoch, voter
),
listed AS (
    SELECT DISTINCT recording, node_id, replica_id, coalesce(each.topic, each.topic_id) AS topic,
        each.partition AS partition
    FROM (SELECT *, explode(request_partitions) AS each FROM fetches
        WHERE NOT is_cluster_metadata AND replica_id >= 0
            AND completed_at > $since_at - INTERVAL 11 MINUTE)
),
stated AS (
    SELECT recording, node_id, topic, topic_id, partition, leader_id, leader_epoch, replica_id,
        min(built_at) FILTER (WHERE NOT is_in) AS out_at, min(built_at) FILTER (WHERE is_in) AS in_at,
        max(built_at) FILTER (WHERE is_in) AS last_in_at
    FROM (
        SELECT *, array_contains(isr, replica_id) AS is_in
        FROM (SELECT *, explode(replicas) AS replica_id FROM isr_changes
            WHERE source = 'METADATA' AND error_code = 0
                AND built_at > $since_at - INTERVAL 11 MINUTE))
    WHERE replica_id <> leader_id GROUP BY ALL
),
unfollowed AS (
    SELECT s.*
    FROM (SELECT *, min(in_at) OVER (
            PARTITION BY recording, node_id, topic, partition ORDER BY leader_epoch
            RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS until_at FROM stated) AS s
    ANTI JOIN listed AS l ON l.recording = s.recording AND l.node_id = s.leader_id
        AND l.replica_id = s.replica_id AND l.partition = s.partition
        AND (l.topic = s.topic OR l.topic = s.topic_id)
),
lacking AS (
    SELECT recording, node_id FROM (
        SELECT recording, node_id, leader_epoch, replica_id, first_at, last_at FROM heartbeats
        UNION ALL SELECT * FROM running)
    ANTI JOIN fetching USING (recording, node_id, leader_epoch, replica_id)
    WHERE replica_id <> node_id AND last_at >= first_at + INTERVAL 10 SECOND
    UNION ALL
    SELECT recording, node_id
    FROM fetching ANTI JOIN heartbeats USING (recording, node_id, leader_epoch, replica_id)
    SEMI JOIN listed USING (recording, replica_id)
    WHERE last_at >= first_at + INTERVAL 10 SECOND
    UNION ALL
    SELECT u.recording, u.leader_id
    FROM unfollowed AS u
    JOIN (SELECT *, explode(partitions) AS each FROM produces) AS p ON p.recording = u.recording
        AND p.node_id = u.leader_id AND each.partition = u.partition AND each.base_offset >= 0
        AND (each.topic = u.topic OR each.topic_id = u.topic_id)
        AND p.built_at >= in_at AND (until_at IS NULL OR p.built_at < until_at)
    JOIN heartbeats AS h ON h.recording = u.recording AND h.replica_id = u.replica_id
        AND unfenced_at >= p.built_at
    GROUP BY u.recording, u.leader_id, u.topic, u.partition, u.leader_epoch, u.replica_id
    HAVING max(p.built_at) >= min(p.built_at) + INTERVAL 10 SECOND
    UNION ALL
    -- By a broker that was there since, and has learned of what others knew.
    SELECT s.recording, e.node_id
    FROM stated AS s
    JOIN stated AS o ON o.recording = s.recording AND o.topic = s.topic AND o.partition = s.partition
        AND o.leader_epoch = s.leader_epoch AND o.replica_id = s.replica_id
    JOIN broker_heartbeats AS h ON h.recording = s.recording AND h.broker_id = s.node_id
        AND h.received_at > o.out_at + INTERVAL 2 SECOND
        AND h.received_at < s.last_in_at - INTERVAL 2 SECOND
    JOIN epochs AS e ON e.recording = s.recording AND e.node_id = h.node_id
        AND first_at <= o.out_at AND last_at >= s.last_in_at
    ANTI JOIN (SELECT recording, topic, partition, explode(requested_isr) AS replica_id
        FROM isr_changes WHERE source = 'ALTER_PARTITION') AS a ON a.recording = s.recording
        AND a.partition = s.partition AND a.replica_id = s.replica_id
        AND (a.topic = s.topic OR a.topic = s.topic_id)
)
SELECT DISTINCT recording, node_id, NULL AS after_at, NULL AS before_at, 'filtered' AS evidence
FROM lacking
