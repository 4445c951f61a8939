-- Partitions of PRODUCEs with acks=all, whether the brokers ran the draft, and which replica was out of
-- the ISR for most of them and left nobody else to wait for.
WITH absent AS (
    SELECT o.recording, replica_id, count(*) AS writes
    FROM produce_ack_outcomes AS o JOIN (
        SELECT DISTINCT recording, topic, partition, unnest(replicas) AS replica_id FROM isr_changes) AS r
    ON r.recording = o.recording AND r.topic = o.topic AND r.partition = o.partition
    WHERE parameter = 'none' AND acks = -1 AND size(isr) <= min_insync_replicas
        AND NOT list_contains(isr, replica_id)
    GROUP BY o.recording, replica_id
)
SELECT ran.recording, requests, coalesce(variant = 'acks_min_insync_replicas', FALSE) AS in_use,
    FALSE AS is_mixed, max_by(replica_id, writes) AS absent,
    round(1e2 * max(writes) / requests) AS absent_percent
FROM ran LEFT JOIN absent ON absent.recording = ran.recording AND 2 * writes > requests
GROUP BY ran.recording, requests, variant
