-- What a cluster's brokers ran is the protocol under which more of its responses come out near the
-- recorded ones: what the stamps of a log leave open is 2 ms.
WITH near AS (
    SELECT recording, avg((size(isr) <= min_insync_replicas)::INT) > 9e-1 AS is_minimal,
        count(*) AS requests,
        count(*) FILTER (
            abs(request_min_isr_latency_ms - request_recorded_latency_ms) <= 2) AS early,
        count(*) FILTER (
            abs(request_acks_all_latency_ms - request_recorded_latency_ms) <= 2) AS late
    FROM produce_ack_outcomes WHERE parameter = 'none' AND acks = -1 GROUP BY recording
)
SELECT *, CASE WHEN early > late THEN 'acks_min_insync_replicas'
    WHEN late > 0 THEN 'acks_all' END AS variant
FROM near
