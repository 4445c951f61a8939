-- Partitions of PRODUCEs with acks=all, whether the brokers ran the draft, and which replica was out of
-- the ISR for most of them and left nobody else to wait for.
WITH minimal AS (
    SELECT recording, topic, partition, isr, count(*) AS writes FROM produce_ack_outcomes
    WHERE parameter = 'none' AND acks = -1 AND size(isr) <= min_insync_replicas
    GROUP BY recording, topic, partition, isr
),
replicas AS (
    SELECT DISTINCT recording, topic, partition, unnest(replicas) AS replica_id FROM isr_changes
),
absent AS (
    SELECT m.recording, replica_id, sum(writes) AS writes
    FROM minimal AS m JOIN replicas AS r ON r.recording = m.recording AND r.topic = m.topic
        AND r.partition = m.partition AND NOT list_contains(isr, replica_id)
    GROUP BY m.recording, replica_id
)
SELECT ran.recording, requests, coalesce(variant = 'acks_min_insync_replicas', FALSE) AS in_use,
    FALSE AS is_mixed, max_by(replica_id, writes) AS absent,
    round(1e2 * max(writes) / requests) AS absent_percent
FROM ran LEFT JOIN absent ON absent.recording = ran.recording AND 2 * writes > requests
GROUP BY ran.recording, requests, variant
