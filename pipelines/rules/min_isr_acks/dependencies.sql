-- What outcomes up to a time follow from besides the log up to it. The names of topic ids; who leads
-- what, also where only a later PRODUCE shows it: a leader is fed what other nodes' lines say of
-- brokers and its partitions, which may be earlier; configs that a later line describes; which brokers
-- fall silent then, which the next heartbeat shows.
WITH named AS (
    SELECT written.node_id, written.topic, written.topic_id, written.partition, names.name
    FROM written_partitions AS written
    LEFT JOIN topic_names AS names ON names.topic_id = written.topic_id
),
led AS (
    SELECT DISTINCT node_id, unnest([topic, topic_id, name]) AS topic, partition FROM named
),
stated AS (
    SELECT DISTINCT topic, partition FROM stated_partitions WHERE stated_us <= $until_us
),
-- Who is silent for longer, was so by then already.
heartbeats AS (
    SELECT broker_id, max(unix_micros(dequeued_at)) FILTER (
            WHERE unix_micros(dequeued_at) <= $until_us) AS last_us,
        min(unix_micros(dequeued_at)) FILTER (
            WHERE unix_micros(dequeued_at) > $until_us) AS next_us
    FROM broker_heartbeats
    WHERE error_code = 0 AND dequeued_at > timestamp_micros($until_us - $silence_us)
        AND dequeued_at <= timestamp_micros($until_us + $silence_us)
    GROUP BY broker_id
)
SELECT 'name' AS what, NULL AS id, topic_id AS topic, name AS value FROM usable_names
UNION ALL
SELECT DISTINCT 'leads', node_id, NULL, NULL FROM written_partitions
UNION ALL
SELECT DISTINCT 'leads', led.node_id, led.topic, CAST(stated.partition AS VARCHAR)
FROM led JOIN stated
ON led.topic = stated.topic AND led.partition = coalesce(stated.partition, led.partition)
UNION ALL
SELECT 'held', min_insync_replicas, topic, CAST(unix_micros(held_from) AS VARCHAR)
FROM held_partitions
WHERE partition = -1 AND held_from <= timestamp_micros($until_us)
    AND (topic = '' OR topic IN (SELECT topic FROM led))
UNION ALL
SELECT 'silent', broker_id, NULL,
    CAST(coalesce(next_us - last_us > $silence_us, TRUE) AS VARCHAR)
FROM heartbeats WHERE last_us IS NOT NULL
UNION ALL
SELECT what, node_id, CAST(broker_id AS VARCHAR),
    concat_ws(' ', CAST(unix_micros(uncertain_from) AS VARCHAR), CAST(unix_micros(uncertain_until) AS VARCHAR))
FROM uncertainties WHERE shown_at <= timestamp_micros($until_us)
ORDER BY what, id, topic, value
