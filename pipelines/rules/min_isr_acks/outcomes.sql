-- name: latencies
-- Values for latency_summary, over the whole recording: brokers come and go in it. produce_latency (of
-- each partition) and produce_request_latency are of producers that waited for all replicas: recorded,
-- with acks=all and with acks=min.insync.replicas; a sweep has the last only. exposure: from the early
-- response until the whole ISR had the batch; a PRODUCE that is refused exposes nothing.
-- closed_loop_latency is of each request, recorded and in the other cluster, where producers react;
-- _of_known is the recorded one of what is known under a variant;
-- _sent_earliest and _sent_latest if all that the log leaves open were sent at one end of its interval.
CREATE TEMP MACRO us(ms) AS CAST(round(ms * 1000) AS BIGINT);
CREATE TEMP MACRO in_groups(node_id, kind, value) AS [
    {'kind': 'all', 'value': 'all'}, {'kind': 'node_id', 'value': CAST(node_id AS VARCHAR)},
    {'kind': kind, 'value': value}];
WITH produced AS (
    SELECT *, verdict = 'replayed' AS is_known,
        concat_ws('-', topic, CAST(partition AS VARCHAR)) AS topic_partition
    FROM produce_ack_outcomes WHERE verdict <> 'not_applicable'
),
requests_of AS (
    SELECT recording, rule, parameter, parameter_value, request_id, node_id,
        bool_and(is_known) AS is_known, min(received_at) AS received_at,
        max(request_recorded_latency_ms) AS recorded_ms,
        max(request_acks_all_latency_ms) AS acks_all_ms,
        max(request_min_isr_latency_ms) AS min_isr_ms
    FROM produced WHERE acks = -1
    GROUP BY recording, rule, variant, parameter, parameter_value, request_id, node_id
),
waited AS (
    SELECT recording, rule, parameter, parameter_value, 'produce_latency' AS metric, node_id,
        topic_partition, received_at, unnest([
            {'variant': $recorded, 'ms': partition_recorded_latency_ms},
            {'variant': $acks_all, 'ms': CASE WHEN is_known THEN partition_acks_all_latency_ms END},
            {'variant': $min_isr, 'ms': CASE WHEN is_known THEN partition_min_isr_latency_ms END}
        ]) AS under
    FROM produced WHERE acks = -1
    UNION ALL
    SELECT recording, rule, parameter, parameter_value, 'produce_request_latency', node_id, NULL,
        received_at, unnest([
            {'variant': $recorded, 'ms': recorded_ms},
            {'variant': $acks_all, 'ms': CASE WHEN is_known THEN acks_all_ms END},
            {'variant': $min_isr, 'ms': CASE WHEN is_known THEN min_isr_ms END}])
    FROM requests_of
    UNION ALL
    SELECT recording, rule, parameter, parameter_value, 'produce_request_latency_of_known', node_id,
        NULL, received_at, unnest([
            {'variant': $acks_all, 'ms': CASE WHEN is_known THEN recorded_ms END},
            {'variant': $min_isr, 'ms': CASE WHEN is_known THEN recorded_ms END}])
    FROM requests_of WHERE parameter = 'none'
),
reacting AS (
    SELECT recording, rule, parameter, parameter_value, node_id, recorded_received_at,
        CASE WHEN is_own THEN 'own' ELSE 'held_back' END AS arrival, unnest([
            {'variant': variant, 'metric': 'closed_loop_latency', 'ms': latency_ms},
            {'variant': variant, 'metric': 'closed_loop_latency_of_known',
                'ms': CASE WHEN latency_ms IS NOT NULL THEN request_recorded_latency_ms END},
            {'variant': variant, 'metric': 'closed_loop_latency_sent_earliest',
                'ms': latency_sent_earliest_ms},
            {'variant': variant, 'metric': 'closed_loop_latency_sent_latest',
                'ms': latency_sent_latest_ms},
            {'variant': CASE WHEN variant = $min_isr
                    AND request_recorded_latency_ms IS NOT NULL THEN $recorded END,
                'metric': 'closed_loop_latency', 'ms': request_recorded_latency_ms}]) AS under
    FROM produce_closed_loop_outcomes
),
measured AS (
    SELECT recording, rule, under.variant, parameter, parameter_value, metric,
        us(under.ms) AS value_us, received_at AS measured_at,
        unnest(in_groups(node_id, 'topic_partition', topic_partition)) AS of_group
    FROM waited WHERE parameter = 'none' OR under.variant = $min_isr
    UNION ALL
    SELECT recording, rule, variant, parameter, parameter_value, 'exposure', us(exposure_ms),
        received_at, unnest(in_groups(node_id, 'topic_partition', topic_partition))
    FROM produced WHERE verdict = 'unknown' OR min_isr_error = 0
    UNION ALL
    SELECT recording, rule, under.variant, parameter, parameter_value, under.metric,
        us(under.ms), recorded_received_at, unnest(in_groups(node_id, 'arrival', arrival))
    FROM reacting WHERE under.variant IS NOT NULL
)
SELECT recording, rule, variant, parameter, parameter_value, metric, value_us,
    unix_micros(measured_at) AS at_us, of_group
FROM measured WHERE of_group.value IS NOT NULL
-- name: ran
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
-- name: facts
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
