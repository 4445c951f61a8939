-- What held of each partition when a recording began: leader, replicas and ISR, as the first METADATA
-- that names it has them, at most $evidence_us later. They hold back to the beginning unless a line
-- between shows a change:
--   * Who is in that ISR was in it before, or an ALTER_PARTITION made it join.
--   * Who is not in it left before, or by an ALTER_PARTITION, or a controller took it out: a fencing, a
--     shutdown or a silence that its heartbeats show. Whoever sends none at all was fenced $silence_us
--     after the beginning at the latest, and a scan later.
--   * Where one of these is open, so is the ISR. After an election, a reassignment, a registration or a
--     deletion of the topic nothing holds back.
-- The active controller's log shows these, so it is its beginning that counts.
-- min.insync.replicas of a topic (partition -1), and the brokers' default (topic empty), as the first
-- description has them, however late: they hold back to the beginning if no line before alters them.
WITH begun AS (
    SELECT logs.recording, unix_micros(max(CASE WHEN active.node_id IS NOT NULL THEN began_at END))
            AS began_us, unix_micros(min(began_at)) AS first_us
    FROM (
        SELECT recording, node_id, min(completed_at) AS began_at FROM requests
        GROUP BY recording, node_id) AS logs
    LEFT JOIN (SELECT DISTINCT recording, node_id FROM broker_heartbeats WHERE error_code = 0) AS active
    ON active.recording = logs.recording AND active.node_id = logs.node_id
    GROUP BY logs.recording
),
stated AS (
    SELECT recording, began_us, request_id, node_id, unix_micros(built_at) AS stated_us, topic,
        topic_id, partition, leader_id, leader_epoch, replicas, array_sort(isr) AS isr
    FROM isr_changes JOIN begun USING (recording)
    WHERE source = 'METADATA' AND error_code = 0 AND unix_micros(built_at) >= began_us
        AND unix_micros(built_at) < began_us + $evidence_us
),
-- A node may be behind: what others state soon after must be the same.
agreed AS (
    SELECT *, min(leader_id) OVER soon = max(leader_id) OVER soon
            AND min(isr) OVER soon = max(isr) OVER soon AS is_agreed
    FROM (
        SELECT *, row_number() OVER (
                PARTITION BY recording, topic, partition ORDER BY stated_us, request_id) AS number,
            min(stated_us) OVER (PARTITION BY recording, topic, partition) AS first_us
        FROM stated)
    WHERE stated_us <= first_us + $stale_us
    WINDOW soon AS (PARTITION BY recording, topic, partition)
),
evidence AS (SELECT * FROM agreed WHERE number = 1 AND is_agreed),
altered AS (
    SELECT c.recording, coalesce(names.name, c.topic) AS topic, c.partition,
        min(unix_micros(c.dequeued_at)) AS altered_us
    FROM isr_changes AS c LEFT JOIN topic_names AS names
    ON names.recording = c.recording AND names.topic_id = c.topic
    WHERE c.source = 'ALTER_PARTITION' AND coalesce(c.error_code, 0) = 0
    GROUP BY ALL
),
deleted AS (
    SELECT recording, resource.name AS topic, min(unix_micros(dequeued_at)) AS deleted_us
    FROM (
        SELECT recording, dequeued_at, explode(resources) AS resource FROM metadata_writes
        WHERE api_name = 'DELETE_TOPICS')
    GROUP BY ALL
),
elected AS (
    SELECT recording, min(unix_micros(received_at)) AS elected_us
    FROM requests JOIN begun USING (recording)
    WHERE api_name IN ('ELECT_LEADERS', 'ALTER_PARTITION_REASSIGNMENTS', 'BROKER_REGISTRATION')
        AND unix_micros(completed_at) >= began_us
    GROUP BY recording
),
outside AS (
    SELECT DISTINCT recording, began_us, stated_us, replica
    FROM (SELECT *, explode(replicas) AS replica FROM evidence)
    WHERE NOT array_contains(isr, replica)
),
heard AS (
    SELECT o.recording, o.stated_us, o.replica, count(h.broker_id) AS heartbeats,
        min_by(h.is_fenced, (h.at_us, h.request_id)) AS began_fenced,
        coalesce(bool_or(h.is_fenced OR h.want_shut_down), FALSE)
            OR count(DISTINCT h.broker_epoch) > 1
            OR max(h.at_us - greatest(h.before_us, o.began_us)) > $silence_us
            OR max(o.stated_us) - max(h.at_us) > $silence_us AS has_left
    FROM outside AS o LEFT JOIN (
        SELECT *, unix_micros(dequeued_at) AS at_us, coalesce(unix_micros(lag(dequeued_at) OVER (
            PARTITION BY recording, broker_id ORDER BY dequeued_at, request_id)), 0) AS before_us
        FROM broker_heartbeats WHERE error_code = 0) AS h
    ON h.recording = o.recording AND h.broker_id = o.replica
        AND h.at_us >= o.began_us AND h.at_us <= o.stated_us
    GROUP BY o.recording, o.stated_us, o.replica
),
left_out AS (
    SELECT recording, topic, partition,
        bool_or(heartbeats > 0 AND has_left AND NOT began_fenced) AS has_left,
        bool_or(heartbeats = 0) AS is_silent
    FROM (SELECT *, explode(replicas) AS replica FROM evidence) AS e
    JOIN heard USING (recording, stated_us, replica)
    WHERE NOT array_contains(isr, replica)
    GROUP BY recording, topic, partition
),
configured AS (
    SELECT *, row_number() OVER (
            PARTITION BY recording, topic ORDER BY built_at, request_id, value NULLS LAST) AS number,
        min(CASE WHEN topic = '' AND operation <> 'describe' THEN built_at END)
            OVER (PARTITION BY recording) AS altered_at
    FROM stated_configs
),
held AS (
    SELECT e.recording, e.topic, e.topic_id, e.partition, leader_id, leader_epoch, replicas,
        CASE WHEN altered_us IS NULL AND NOT coalesce(has_left, FALSE) THEN isr END AS isr,
        began_us + CASE WHEN is_silent THEN $fenced_us ELSE 0 END AS held_us, e.stated_us,
        node_id, request_id
    FROM evidence AS e LEFT JOIN left_out USING (recording, topic, partition)
    LEFT JOIN altered AS a
    ON a.recording = e.recording AND a.topic = e.topic AND a.partition = e.partition
        AND altered_us >= began_us AND altered_us <= e.stated_us
    LEFT JOIN deleted AS d
    ON d.recording = e.recording AND (d.topic = e.topic OR d.topic = e.topic_id)
        AND deleted_us >= began_us AND deleted_us <= e.stated_us
    LEFT JOIN elected ON elected.recording = e.recording AND elected_us <= e.stated_us
    WHERE deleted_us IS NULL AND elected_us IS NULL
)
SELECT recording, topic, topic_id, partition, leader_id, leader_epoch, replicas, isr,
    CAST(NULL AS INT) AS min_insync_replicas, timestamp_micros(held_us) AS held_from,
    timestamp_micros(stated_us) AS stated_at, node_id AS stated_by, request_id AS evidence_request_id
FROM held WHERE held_us < stated_us
UNION ALL
SELECT recording, topic, NULL, -1, NULL, NULL, NULL, NULL, TRY_CAST(value AS INT),
    timestamp_micros(coalesce(began_us, first_us)), built_at, node_id, request_id
FROM configured JOIN begun USING (recording)
WHERE number = 1 AND source = 'DESCRIBE_CONFIGS'
    AND (NOT is_default OR coalesce(altered_at > built_at, TRUE))
    AND unix_micros(built_at) > coalesce(began_us, first_us)
