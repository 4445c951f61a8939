-- Partitions of PRODUCEs with acks=all, and whether the brokers ran the draft.
SELECT recording, requests, coalesce(variant = 'acks_min_insync_replicas', FALSE) AS in_use,
    FALSE AS is_mixed
FROM ran
