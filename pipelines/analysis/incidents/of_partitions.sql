-- Partitions without a leader, under-replicated, and below min.insync.replicas, as METADATA and
-- ALTER_PARTITION show them.
-- What a partition lacks at overlapping times is one incident with that of others.
CREATE TEMP MACRO or_never(us) AS coalesce(us, 9000000000000000);
WITH named AS (
    SELECT i.recording, coalesce(n.topic, i.topic) AS topic, i.partition, i.leader_id, i.leader_epoch,
        unix_micros(i.built_at) AS at_us, i.request_id, size(i.isr) AS in_sync,
        max(size(i.replicas)) OVER (PARTITION BY i.recording, coalesce(n.topic, i.topic), i.partition) AS replicas
    FROM isr_changes AS i LEFT JOIN named_topics AS n ON n.recording = i.recording AND n.topic_id = i.topic
    WHERE i.leader_id IS NOT NULL
),
-- A broker that has not yet heard of an election says what was before it.
seen AS (
    SELECT * FROM (
        SELECT *, max(leader_epoch) OVER (
            PARTITION BY recording, topic, partition ORDER BY at_us, request_id ROWS UNBOUNDED PRECEDING) AS newest_epoch
        FROM named) AS each
    WHERE leader_epoch IS NULL OR leader_epoch >= newest_epoch
),
-- min.insync.replicas of topics of which lines state one value alone.
configured AS (
    SELECT recording, topic, min(TRY_CAST(value AS INT)) AS in_sync_min
    FROM stated_configs WHERE topic <> '' GROUP BY recording, topic
    HAVING count(DISTINCT value) = 1 AND count(value) = count(*)
),
states AS (
    SELECT recording, 'offline_partitions' AS kind, topic, partition, at_us, request_id, leader_id < 0 AS lacks FROM seen
    UNION ALL SELECT recording, 'under_replicated', topic, partition, at_us, request_id, in_sync < replicas
    FROM seen WHERE in_sync IS NOT NULL AND leader_id >= 0
    UNION ALL SELECT s.recording, 'below_min_isr', s.topic, partition, at_us, request_id, in_sync < in_sync_min
    FROM seen AS s JOIN configured AS c ON c.recording = s.recording AND c.topic = s.topic
    WHERE in_sync IS NOT NULL AND leader_id >= 0 AND replicas >= in_sync_min
),
placed AS (
    SELECT *, max(CASE WHEN NOT lacks THEN at_us END) OVER earlier AS whole_before_us,
        max(CASE WHEN lacks THEN at_us END) OVER earlier AS lacked_before_us,
        min(CASE WHEN NOT lacks THEN at_us END) OVER later AS whole_after_us
    FROM states
    WINDOW earlier AS (PARTITION BY recording, kind, topic, partition ORDER BY at_us, request_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        later AS (PARTITION BY recording, kind, topic, partition ORDER BY at_us, request_id
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
),
-- Brokers learn of a change one after the other, hardly later than 2 s: what one says in between is no end.
spans AS (
    SELECT recording, kind, topic, partition, min(at_us) AS begin_us, min_by(request_id, (at_us, request_id)) AS request_id,
        CASE WHEN count(whole_after_us) = count(*) THEN max(whole_after_us) END AS end_us
    FROM (
        SELECT *, sum(CASE WHEN lacked_before_us IS NULL OR (whole_before_us > lacked_before_us
                AND at_us > lacked_before_us + 2000000) THEN 1 ELSE 0 END)
            OVER (PARTITION BY recording, kind, topic, partition ORDER BY at_us, request_id ROWS UNBOUNDED PRECEDING) AS number
        FROM placed WHERE lacks) AS each
    GROUP BY recording, kind, topic, partition, number
),
-- Spans of a kind that overlap.
joined AS (
    SELECT *, sum(CASE WHEN begin_us <= before_us THEN 0 ELSE 1 END)
        OVER (PARTITION BY recording, kind ORDER BY begin_us, topic, partition ROWS UNBOUNDED PRECEDING) AS number
    FROM (
        SELECT s.*, topic || '-' || CAST(partition AS STRING) AS subject, end_us - begin_us AS lasts_us,
            max(or_never(end_us)) OVER (PARTITION BY s.recording, kind ORDER BY begin_us, topic, partition
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_us
        FROM spans AS s JOIN health_spans AS h ON h.recording = s.recording AND begin_us >= from_us AND begin_us < until_us) AS each
),
placed_subjects AS (
    SELECT *, row_number() OVER (PARTITION BY recording, kind, number
        ORDER BY or_never(end_us) - begin_us DESC, subject) AS place
    FROM joined
)
SELECT recording, kind, false AS is_planned, min(begin_us) AS begin_us,
    CASE WHEN count(end_us) = count(*) THEN max(end_us) END AS end_us,
    sort_array(collect_list(CASE WHEN place <= 5 THEN subject END)) AS subjects, count(DISTINCT subject) AS count,
    CAST(NULL AS BIGINT) AS population, max(lasts_us) / 1e6 AS worst_s, CAST(NULL AS STRING) AS cause,
    CAST(NULL AS STRING) AS caused_by, CAST(NULL AS INT) AS node_id, CAST(NULL AS STRING[]) AS clients,
    min_by(request_id, (begin_us, request_id)) AS request_id
FROM placed_subjects GROUP BY recording, kind, number
