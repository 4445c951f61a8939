-- Logs that lack all lines of a kind, so that no number is skipped: others' lines, or its own, show for
-- ten seconds or more that these were sent.
--   * A broker that sends heartbeats to an active controller fetches the metadata log from it, and the
--     other way round; and so does a voter that runs, as its own log shows.
--   * Who is in an ISR, and goes on sending heartbeats, fetches what is appended.
--   * A broker that was fenced is in no ISR. When it is not any more and has all of a partition, its
--     leader requests at once that it is added (ALTER_PARTITION).
WITH heartbeats AS (
    SELECT recording, node_id, broker_id AS replica_id, received_at, is_fenced,
        lag(is_fenced) OVER (
            PARTITION BY recording, node_id, broker_id ORDER BY received_at, request_id
        ) AND NOT is_fenced AS is_back,
        min(CASE WHEN NOT is_fenced THEN received_at END) OVER (
            PARTITION BY recording, node_id, broker_id) AS first_at
    FROM broker_heartbeats
    WHERE error_code = 0 AND completed_at > $since_at - INTERVAL 11 MINUTE
),
beating AS (
    SELECT recording, node_id, replica_id, min(received_at) AS first_at, max(received_at) AS last_at,
        max(received_at) FILTER (WHERE NOT is_fenced) AS unfenced_at
    FROM heartbeats GROUP BY recording, node_id, replica_id
),
fetching AS (
    SELECT recording, node_id, replica_id, min(received_at) AS first_at, max(received_at) AS last_at
    FROM logged_fetches WHERE is_metadata AND leader_epoch IS NOT NULL AND replica_id >= 0
    GROUP BY recording, node_id, replica_id
),
running AS (
    SELECT a.recording, a.node_id, r.node_id AS replica_id, min(received_at) AS first_at,
        max(received_at) AS last_at
    FROM (
        SELECT recording, node_id, min(first_at) AS first_at, max(last_at) AS last_at
        FROM fetching GROUP BY recording, node_id) AS a
    JOIN voters AS v ON v.recording = a.recording AND voter <> a.node_id
    JOIN logged_requests AS r ON r.recording = a.recording AND r.node_id = voter
        AND r.received_at >= a.first_at AND r.received_at <= a.last_at
    GROUP BY a.recording, a.node_id, r.node_id
),
-- By name and by id: a request has one of them.
stated AS (
    SELECT *, explode([topic, topic_id]) AS key
    FROM (
        SELECT recording, leader_id, topic, topic_id, partition, replica_id,
            min(built_at) AS built_at
        FROM (
            SELECT *, explode(isr) AS replica_id FROM isr_changes
            WHERE source = 'METADATA' AND error_code = 0
                AND built_at > $since_at - INTERVAL 11 MINUTE)
        WHERE replica_id <> leader_id GROUP BY ALL)
),
altered AS (
    SELECT recording, built_at, explode(requested_isr) AS replica_id
    FROM isr_changes WHERE source = 'ALTER_PARTITION'
),
appended AS (
    SELECT recording, node_id, coalesce(each.topic, each.topic_id) AS topic, each.partition AS partition,
        min(built_at) AS first_at, max(built_at) AS last_at
    FROM (SELECT recording, node_id, built_at, explode(partitions) AS each FROM produces
        WHERE completed_at > $since_at - INTERVAL 11 MINUTE)
    WHERE each.base_offset >= 0
    GROUP BY ALL HAVING max(built_at) >= min(built_at) + INTERVAL 10 SECOND
),
fetched AS (
    SELECT recording, request_id, node_id, replica_id, received_at, request_partitions,
        response_partitions
    FROM fetches WHERE NOT is_cluster_metadata AND replica_id >= 0
        AND completed_at > $since_at - INTERVAL 11 MINUTE
),
listed AS (
    SELECT recording, node_id, replica_id, coalesce(each.topic, each.topic_id) AS topic,
        each.partition AS partition, min(received_at) AS known_at
    FROM (SELECT *, explode(request_partitions) AS each FROM fetched)
    GROUP BY ALL
),
returned AS (
    SELECT recording, node_id, replica_id, max(received_at) AS back_at
    FROM heartbeats WHERE is_back AND first_at < received_at
    GROUP BY recording, node_id, replica_id
),
followed AS (
    SELECT DISTINCT s.recording, leader_id, s.topic, s.partition, s.replica_id
    FROM stated AS s JOIN listed AS l ON l.recording = s.recording AND l.node_id = s.leader_id
        AND l.replica_id = s.replica_id AND l.topic = s.key AND l.partition = s.partition
),
back AS (
    SELECT f.* FROM fetched AS f JOIN returned AS r ON r.recording = f.recording
        AND r.replica_id = f.replica_id AND f.received_at >= back_at + INTERVAL 10 SECOND
),
-- FETCHes from an offset that is no lower than the high watermark in their response.
caught_up AS (
    SELECT o.recording, o.node_id, o.replica_id, topic, o.each.partition AS partition
    FROM (
        SELECT *, coalesce(each.topic, each.topic_id) AS topic
        FROM (SELECT *, explode(request_partitions) AS each FROM back)) AS o
    JOIN (SELECT recording, request_id, explode(response_partitions) AS each FROM back) AS p
    ON p.recording = o.recording AND p.request_id = o.request_id
        AND p.each.partition = o.each.partition AND p.each.high_watermark <= o.each.fetch_offset
        AND coalesce(p.each.topic, p.each.topic_id) = topic AND p.each.error_code = 0
),
lacking AS (
    SELECT recording, node_id FROM (
        SELECT recording, node_id, replica_id, first_at, last_at FROM beating
        WHERE replica_id <> node_id
        UNION ALL SELECT * FROM running)
    ANTI JOIN fetching USING (recording, node_id, replica_id)
    WHERE last_at >= first_at + INTERVAL 10 SECOND
    UNION ALL
    SELECT recording, node_id
    FROM fetching ANTI JOIN beating USING (recording, node_id, replica_id)
    SEMI JOIN listed USING (recording, replica_id)
    WHERE last_at >= first_at + INTERVAL 10 SECOND
    UNION ALL
    SELECT s.recording, s.leader_id
    FROM stated AS s JOIN appended AS a
    ON a.recording = s.recording AND a.node_id = s.leader_id AND a.topic = s.key
        AND a.partition = s.partition AND a.last_at >= s.built_at + INTERVAL 10 SECOND
    JOIN beating AS b ON b.recording = s.recording AND b.replica_id = s.replica_id
        AND b.unfenced_at >= a.first_at + INTERVAL 10 SECOND
        AND b.unfenced_at >= s.built_at + INTERVAL 10 SECOND
    ANTI JOIN followed AS f ON f.recording = s.recording AND f.leader_id = s.leader_id
        AND f.topic = s.topic AND f.partition = s.partition AND f.replica_id = s.replica_id
    UNION ALL
    SELECT r.recording, r.node_id
    FROM returned AS r JOIN beating AS b USING (recording, node_id, replica_id)
    JOIN caught_up AS c ON c.recording = r.recording AND c.replica_id = r.replica_id
    JOIN listed AS l ON l.recording = c.recording AND l.node_id = c.node_id
        AND l.topic = c.topic AND l.partition = c.partition AND l.known_at < r.back_at
    ANTI JOIN altered AS x ON x.recording = r.recording AND x.replica_id = r.replica_id
        AND x.built_at >= r.back_at
    WHERE b.unfenced_at >= r.back_at + INTERVAL 10 SECOND
)
SELECT DISTINCT recording, node_id, NULL AS after_at, NULL AS before_at, 'filtered' AS evidence
FROM lacking
