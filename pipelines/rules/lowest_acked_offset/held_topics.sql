-- Replicas of topics that there were when the log began: what brokers have to do when one is deleted.
-- METADATA names them with their replicas. Of one that was deleted before, followers' sessions have all
-- replicas but the leaders', under an id alone from FETCH v13 on: it is the topic of a deletion if the
-- followers forget no other such id in the seconds after it, and no other deletion comes before that.
WITH named AS (
    SELECT recording, topic, min(held_from) AS held_from,
        CAST(sum(size(replicas)) AS BIGINT) AS replicas
    FROM held_partitions WHERE partition >= 0 GROUP BY recording, topic
),
followed AS (
    SELECT recording, p.topic AS topic, p.topic_id AS topic_id, min(held_from) AS held_from,
        max(stated_at) AS stated_at, count(*) + count(DISTINCT p.partition) AS replicas
    FROM (
        SELECT recording, held_from, stated_at, explode(partitions) AS p
        FROM held_sessions WHERE replica_id >= 0)
    GROUP BY recording, p.topic, p.topic_id
),
forgotten AS (
    SELECT recording, gone.topic_id AS topic_id, min(unix_micros(dequeued_at)) AS at_us
    FROM (
        SELECT recording, dequeued_at, explode(forgotten_partitions) AS gone
        FROM fetches WHERE replica_id >= 0 AND size(forgotten_partitions) > 0)
    GROUP BY recording, gone.topic_id
),
deleted AS (
    SELECT recording, resource.name AS topic, min(unix_micros(dequeued_at)) AS at_us
    FROM (
        SELECT recording, dequeued_at, explode(resources) AS resource
        FROM metadata_writes WHERE api_name = 'DELETE_TOPICS')
    WHERE resource.error_code = 0
    GROUP BY recording, resource.name
),
pairs AS (
    SELECT d.recording, d.topic, e.held_from, e.replicas,
        count(*) OVER (PARTITION BY d.recording, d.topic) AS ids,
        count(*) OVER (PARTITION BY d.recording, e.topic_id) AS deletions
    FROM deleted AS d JOIN forgotten AS f
    ON f.recording = d.recording AND f.at_us >= d.at_us AND f.at_us < d.at_us + 3000000
    JOIN followed AS e
    ON e.recording = f.recording AND e.topic_id = f.topic_id AND e.topic = e.topic_id
        AND f.at_us < unix_micros(e.stated_at)
    ANTI JOIN named AS n ON n.recording = d.recording AND n.topic = d.topic
)
SELECT recording, topic, held_from, replicas FROM named
UNION ALL
SELECT e.recording, e.topic, e.held_from, e.replicas
FROM followed AS e ANTI JOIN named AS n ON n.recording = e.recording AND n.topic = e.topic
WHERE e.topic <> e.topic_id
UNION ALL
SELECT recording, topic, held_from, replicas FROM pairs WHERE ids = 1 AND deletions = 1
