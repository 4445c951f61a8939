-- What acks=min.insync.replicas costs can also be held against a cluster whose ISR is no larger than
-- min.insync.replicas: there acks=all waits for just as many. A self-check needs no ISR: where none
-- is known, its responses are misses.
SELECT predicted_from, recorded_in,
    CASE WHEN predicted_from <> recorded_in AND other.is_minimal
        THEN 'acks_min_insync_replicas' ELSE coalesce(other.variant, 'acks_all') END AS own_variant,
    TRUE AS is_judged
FROM pairs
JOIN ran AS one ON one.recording = predicted_from
JOIN ran AS other ON other.recording = recorded_in
WHERE predicted_from = recorded_in
    OR coalesce(NOT one.is_minimal AND (other.is_minimal OR one.variant <> other.variant), FALSE)
