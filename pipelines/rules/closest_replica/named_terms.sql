-- leader_terms of the partitions that consumers read, by the topic's name, with the first epoch and when
-- one was first read.
WITH reads AS (
    SELECT r.recording, coalesce(n.name, r.topic, r.topic_id) AS topic, r.partition,
        min(r.stated_us) AS read_us
    FROM read_partitions AS r LEFT JOIN topic_names AS n
    ON n.recording = r.recording AND n.topic_id = r.topic_id
    GROUP BY ALL
),
named AS (
    SELECT t.recording, coalesce(n.name, t.topic, t.topic_id) AS topic, t.partition,
        t.leader_epoch, t.leader_id, min(t.stated_us) AS stated_us
    FROM leader_terms AS t LEFT JOIN topic_names AS n
    ON n.recording = t.recording AND n.topic_id = t.topic_id
    GROUP BY ALL
)
SELECT named.*, read_us,
    min(leader_epoch) OVER (PARTITION BY named.recording, named.topic, named.partition) AS first_epoch
FROM named JOIN reads
ON reads.recording = named.recording AND reads.topic = named.topic
    AND reads.partition = named.partition
