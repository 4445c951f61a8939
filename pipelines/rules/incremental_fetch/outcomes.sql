-- name: compared
-- FETCHes of topic partitions under each variant; is_known: what it takes is known there, with
-- sessions and without, so that sums of variants are of the same FETCHes. is_older: nor can it be.
WITH unknown AS (
    SELECT recording, request_id, bool_or(reason = $began_before_log) AS is_older
    FROM fetch_session_outcomes
    WHERE parameter = 'none' AND verdict = 'unknown' AND variant IN ('full', 'incremental') GROUP BY ALL
)
SELECT o.*, verdict <> 'unknown' AND unknown.request_id IS NULL AS is_known,
    coalesce(is_older, FALSE) AS is_older
FROM fetch_session_outcomes AS o LEFT JOIN unknown
ON unknown.recording = o.recording AND unknown.request_id = o.request_id
WHERE verdict <> 'not_applicable'
-- name: bandwidth
-- FETCHes for bandwidth_summary; of those between bounds the least bytes. One of which a variant is
-- unknown was sent, and its size counts under none.
SELECT recording, rule, variant, parameter, parameter_value, node_id, dequeued_at, built_at,
    client_kind, request_partitions, response_partitions, record_bytes,
    CASE WHEN is_known THEN request_bytes END AS request_bytes,
    CASE WHEN is_known THEN response_bytes END AS response_bytes
FROM compared
-- name: facts
-- FETCHes of topic partitions, whether their sessions are in use, refused or lost, and how many slots
-- would be enough for all. Slots are as many in each of $shards shards. Sessions that began before the
-- log were there at once when it began. Error 70: the broker does not know the session any more.
WITH sent AS (
    SELECT recording, count(*) AS requests, count(*) FILTER (error_code = 70) AS evicted,
        count(*) FILTER (
            session_epoch = 0 AND error_code = 0 AND response_session_id = 0) AS refused
    FROM fetches WHERE NOT is_cluster_metadata GROUP BY recording
),
-- Clients that request no session, their share of the bytes besides records where all sizes are
-- known, and those whose library says on each connection that it has no sessions.
of_clients AS (
    SELECT o.recording, coalesce(o.client_id, '(no client id)') AS client_id,
        max(session_epoch) < 0 AS has_none, bool_or(client_kind = 'follower') AS is_follower,
        bool_and(coalesce(regexp_matches(software_name, 'rdkafka|^confluent-kafka'), FALSE))
            AS is_rdkafka,
        CASE WHEN count(*) = count(o.request_bytes + o.response_bytes - o.record_bytes)
            THEN CAST(sum(o.request_bytes + o.response_bytes - o.record_bytes) AS BIGINT) END
            AS overhead_bytes
    FROM fetch_session_outcomes AS o LEFT JOIN requests AS r
    ON r.recording = o.recording AND r.request_id = o.request_id
    WHERE variant = 'recorded' AND parameter = 'none'
    GROUP BY o.recording, coalesce(o.client_id, '(no client id)')
),
without_session AS (
    SELECT recording, count(*) FILTER (NOT is_follower) AS clients, count(*) FILTER (has_none) AS without,
        count(*) FILTER (has_none AND is_rdkafka) AS without_rdkafka,
        CASE WHEN count(*) = count(overhead_bytes) THEN CAST(
            100 * coalesce(sum(overhead_bytes) FILTER (has_none), 0)
            // greatest(sum(overhead_bytes), 1) AS BIGINT) END AS without_percent,
        max_by(client_id, (overhead_bytes, client_id)) FILTER (has_none) AS without_most
    FROM of_clients GROUP BY recording
),
of_nodes AS (
    SELECT recording, count(*) FILTER (variant = 'recorded' AND NOT is_full) AS incremental,
        count(*) FILTER (variant = 'incremental' AND verdict = 'unknown') AS unknown_fetches,
        count(DISTINCT CASE WHEN variant = 'incremental' AND reason = $began_before_log
            THEN session_key END) AS older
    FROM fetch_session_outcomes WHERE parameter = 'none' GROUP BY recording, node_id
),
replayed AS (
    SELECT recording, sum(incremental) AS incremental, max(older) AS at_begin,
        CAST(sum(unknown_fetches) AS BIGINT) AS unknown_fetches,
        CAST(sum(older) AS BIGINT) AS not_counted
    FROM of_nodes GROUP BY recording
),
steps AS (
    SELECT recording, node_id, shard, unix_micros(event_at) AS at_us,
        CASE event WHEN 'created' THEN 1 ELSE -1 END AS step
    FROM fetch_session_evictions
    WHERE parameter = 'none' AND variant = 'incremental' AND event <> 'refused'
),
held AS (
    SELECT recording, node_id, shard,
        sum(step) OVER (PARTITION BY recording, node_id
            ORDER BY at_us NULLS LAST, step NULLS LAST ROWS UNBOUNDED PRECEDING) AS in_node,
        sum(step) OVER (PARTITION BY recording, node_id, shard
            ORDER BY at_us NULLS LAST, step NULLS LAST ROWS UNBOUNDED PRECEDING) AS in_shard
    FROM steps
),
peaks AS (
    SELECT recording, CAST(max(in_node) AS BIGINT) AS peak, CASE WHEN count(*) = count(shard)
        THEN CAST($shards * max(in_shard) AS BIGINT) END AS enough
    FROM held GROUP BY recording
),
in_force AS (
    SELECT recording, min(TRY_CAST(value AS BIGINT)) AS slots FROM configs
    WHERE resource_type = 'broker' AND operation = 'describe'
        AND name = 'max.incremental.fetch.session.cache.slots'
    GROUP BY recording
)
SELECT sent.recording, requests, incremental > 0 AND refused = 0 AS in_use,
    FALSE AS is_mixed, refused,
    evicted, unknown_fetches, greatest(coalesce(peak, 0), at_begin) AS peak,
    CASE WHEN unknown_fetches > 0 THEN 'at least' ELSE 'at most' END AS most,
    coalesce(enough, peak, 0) + not_counted AS enough, not_counted, slots,
    greatest(1000, coalesce(slots, 0), $shards * CAST(ceil(CAST(
            (coalesce(enough, peak, 0) + not_counted) * $decide_slots_headroom AS DOUBLE)
        / $shards) AS BIGINT)) AS slots_to_set,
    CASE WHEN refused > 0 OR coalesce(enough, peak, 0) + not_counted > coalesce(slots, 1000)
        THEN refused + evicted ELSE 0 END AS to_mend,
    CASE WHEN slots < $shards THEN 'too_few_slots' ELSE 'to_mend_more' END AS more,
    clients AS fetching_clients, without, without_rdkafka,
    without_percent, without_most
FROM sent JOIN replayed ON replayed.recording = sent.recording
LEFT JOIN without_session AS w ON w.recording = sent.recording
LEFT JOIN peaks ON peaks.recording = sent.recording
LEFT JOIN in_force ON in_force.recording = sent.recording
