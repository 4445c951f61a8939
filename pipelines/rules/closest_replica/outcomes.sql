-- name: latencies
-- Values for latency_summary: how much later records come that another replica than the leader gives.
SELECT recording, rule, variant, parameter, parameter_value, 'added_delay' AS metric,
    CASE WHEN verdict = 'replayed' THEN CAST(round(added_ms * 1000) AS BIGINT) END AS value_us,
    unix_micros(built_at) AS at_us,
    unnest([{'kind': 'all', 'value': 'all'}, {'kind': 'topic', 'value': topic},
        {'kind': 'client_id', 'value': coalesce(client_id, '')}]) AS of_group
FROM closest_replica_outcomes
WHERE variant <> 'leader' AND record_bytes > 0 AND replica_id IS DISTINCT FROM leader_id
-- name: bandwidth
-- Reads for bandwidth_summary, by broker and whether they cross zones: each is there once as such that
-- does, with no bytes if it does not, and once as the others. Bytes are those of records: what FETCHes
-- take besides is another amount where one broker gets those of several.
SELECT recording, rule, variant, parameter, parameter_value, node_id, side.kind AS client_kind,
    dequeued_at, built_at, 1 AS request_partitions, 1 AS response_partitions, side.bytes AS record_bytes,
    0 * side.bytes AS request_bytes, side.bytes AS response_bytes
FROM (
    SELECT recording, rule, variant, parameter, parameter_value,
        coalesce(replica_id, leader_id, node_id) AS node_id, dequeued_at, built_at, unnest([
            {'kind': 'other zone', 'bytes': CASE WHEN is_cross_zone THEN record_bytes
                WHEN NOT is_cross_zone THEN 0 END},
            {'kind': CASE WHEN is_cross_zone IS NULL THEN 'zone not known' ELSE 'same zone' END,
                'bytes': CASE WHEN is_cross_zone THEN 0 ELSE record_bytes END}]) AS side
    FROM closest_replica_outcomes WHERE parameter = 'none' AND record_bytes > 0
)
-- name: zones
-- Where who sent a FETCH is: consumers that read, and brokers; and what a GB between two zones costs.
SELECT recording, request_id, client_zone AS zone, $price_per_gb_out + $price_per_gb_in AS dollars_per_gb
FROM closest_replica_outcomes WHERE variant = 'leader' AND client_zone IS NOT NULL
UNION ALL SELECT f.recording, f.request_id, rack, $price_per_gb_out + $price_per_gb_in
FROM fetches AS f JOIN broker_racks AS b ON b.recording = f.recording AND b.broker_id = f.replica_id
-- name: facts
-- Reads of clusters whose brokers have a rack, whether a selector is in use, what crosses zones in the
-- steady phase and what that costs, and who does not say where it is. A month has 30 days, a GB 1e9 bytes.
WITH reads AS (
    SELECT recording, count(*) AS requests,
        bool_or(node_id <> leader_id OR preferred_read_replica IS NOT NULL) AS in_use,
        count(*) FILTER (preferred_read_replica IS NOT NULL) AS redirects
    FROM closest_replica_outcomes WHERE variant = 'leader' GROUP BY recording
),
zones AS (
    SELECT recording, count(DISTINCT rack) AS zones FROM brokers GROUP BY recording
),
-- What would cross of the reads of which it is not known, if they were spread evenly.
evenly AS (
    SELECT recording, variant,
        sum(CAST(floor(even_share * record_bytes) AS BIGINT)) * 1e0 / sum(record_bytes) AS share
    FROM closest_replica_outcomes
    WHERE parameter = 'none' AND record_bytes > 0 AND is_cross_zone IS NULL
    GROUP BY recording, variant
),
rates AS (
    SELECT b.recording, b.variant, node_id, sum(bytes) / max(span_s) AS bytes_per_second,
        sum(CASE WHEN client_kind = 'other zone' THEN bytes ELSE 0 END) / max(span_s) AS across,
        sum(CASE WHEN client_kind = 'zone not known' THEN bytes END) / max(span_s) * max(share)
            AS evenly
    FROM bandwidth_summary AS b
    LEFT JOIN evenly AS e ON e.recording = b.recording AND e.variant = b.variant
    WHERE rule = 'closest_replica' AND parameter = 'none' AND span_s > 0
    GROUP BY b.recording, b.variant, node_id
),
summed AS (
    SELECT recording, sum(CASE WHEN variant = 'leader' THEN across END) AS before,
        sum(CASE WHEN variant = 'closest' THEN across END) AS after,
        sum(CASE WHEN variant = 'leader' THEN evenly END) AS even_before,
        sum(CASE WHEN variant = 'closest' THEN evenly END) AS even_after,
        max(CASE WHEN variant = 'leader' THEN bytes_per_second END) AS busiest_before,
        max_by(node_id, bytes_per_second) FILTER (variant = 'closest') AS busiest
    FROM rates GROUP BY recording
),
libraries AS (
    SELECT recording, client_id, min(software_name) AS library
    FROM requests WHERE api_name = 'FETCH' GROUP BY recording, client_id
),
silent AS (
    SELECT recording, count(*) AS without, concat_ws(', ', min(named),
        CASE WHEN count(*) > 1 THEN max(named) END, CASE WHEN count(*) > 2 THEN '…' END) AS without_most
    FROM (SELECT DISTINCT o.recording,
            concat(coalesce(o.client_id, ''), ' (', coalesce(library, 'an unknown library'), ')') AS named
        FROM closest_replica_outcomes AS o LEFT JOIN libraries AS l
        ON l.recording = o.recording AND l.client_id = o.client_id
        WHERE variant = 'leader' AND NOT has_rack_id)
    GROUP BY recording
)
SELECT reads.recording, requests, in_use, FALSE AS is_mixed, redirects, zones, without, without_most,
    busiest,
    round(even_before) AS even_before, round(even_after) AS even_after,
    from_us AS rate_from_us, until_us AS rate_until_us,
    $price_per_gb_out + $price_per_gb_in AS dollars_per_gb,
    round((1 + $decide_busiest_more_share_max) * busiest_before - coalesce(was.bytes_per_second, 0))
        AS busiest_more_max,
    round(before * 2592e-4 * ($price_per_gb_out + $price_per_gb_in)) / 1e2 AS dollars_before,
    round(after * 2592e-4 * ($price_per_gb_out + $price_per_gb_in)) / 1e2 AS dollars_after
FROM reads JOIN zones ON zones.recording = reads.recording
LEFT JOIN summed ON summed.recording = reads.recording
LEFT JOIN rates AS was ON was.recording = reads.recording AND was.variant = 'leader'
    AND was.node_id = busiest
LEFT JOIN phases ON phases.recording = reads.recording
LEFT JOIN silent ON silent.recording = reads.recording
WHERE zones > 0
