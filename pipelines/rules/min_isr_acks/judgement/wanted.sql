-- What a cluster's brokers ran is the protocol under which more of its responses come out near the
-- recorded ones: what the stamps of a log leave open is 2 ms. What acks=min.insync.replicas costs
-- can also be held against one whose ISR is no larger than min.insync.replicas: there acks=all
-- waits for just as many. A self-check needs no ISR: where none is known, its responses are misses.
WITH near AS (
    SELECT recording, avg((size(isr) <= min_insync_replicas)::INT) > 9e-1 AS is_minimal,
        count(*) FILTER (
            abs(request_min_isr_latency_ms - request_recorded_latency_ms) <= 2) AS early,
        count(*) FILTER (
            abs(request_acks_all_latency_ms - request_recorded_latency_ms) <= 2) AS late
    FROM produce_ack_outcomes WHERE parameter = 'none' AND acks = -1 GROUP BY recording
),
ran AS (
    SELECT *, CASE WHEN early > late THEN 'acks_min_insync_replicas'
        WHEN late > 0 THEN 'acks_all' END AS variant
    FROM near
)
SELECT predicted_from, recorded_in,
    CASE WHEN predicted_from <> recorded_in AND other.is_minimal
        THEN 'acks_min_insync_replicas' ELSE coalesce(other.variant, 'acks_all') END AS own_variant,
    TRUE AS is_judged
FROM pairs
JOIN ran AS one ON one.recording = predicted_from
JOIN ran AS other ON other.recording = recorded_in
WHERE predicted_from = recorded_in
    OR coalesce(NOT one.is_minimal AND (other.is_minimal OR one.variant <> other.variant), FALSE)
