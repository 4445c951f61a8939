-- name: reads
-- Outcomes that brokers can be held against, where they have racks: of a client whose zone is only stated
-- they know nothing.
-- has_moved: the closest replica is not the leader; recorded_added_ms: what the broker that was read
-- from added.
SELECT *, bool_or(variant = 'closest' AND replica_id <> leader_id) OVER of_read AS has_moved,
    CASE WHEN node_id = leader_id THEN 0
        ELSE max(CASE WHEN variant = 'closest' AND replica_id = node_id THEN added_ms END) OVER of_read
        END AS recorded_added_ms
FROM closest_replica_outcomes
SEMI JOIN (SELECT DISTINCT recording FROM brokers WHERE rack IS NOT NULL) AS racks USING (recording)
WHERE parameter = 'none' AND (has_rack_id OR client_zone IS NULL)
WINDOW of_read AS (PARTITION BY recording, request_id, topic, partition)
-- name: observed
-- Microseconds from when a record was sent until its reader had it, as clients noted; under a variant so
-- much later or sooner as the replica gives it. In the steady phase, of FETCHes that waited (what a
-- reader catches up on is there anyway), less the first ten seconds: applications start.
WITH begun AS (
    SELECT recording, greatest(any_value(from_us), min(unix_micros(sent_at)) + 10000000) AS begun_us,
        any_value(until_us) AS until_us
    FROM delivery_observations JOIN phases USING (recording) GROUP BY recording
),
ranges AS (
    SELECT *, lead(fetch_offset) OVER (
            PARTITION BY recording, variant, client_id, topic, partition
            ORDER BY fetch_offset, built_at) AS next_offset
    FROM reads WHERE record_bytes > 0
),
delivered AS (
    SELECT r.*, unix_micros(received_at) - unix_micros(sent_at) AS delay_us
    FROM delivery_observations AS d JOIN begun ON begun.recording = d.recording
    JOIN ranges AS r ON r.recording = d.recording AND r.client_id = d.client_id
        AND r.topic = d.topic AND r.partition = d.partition
        AND d.record_offset >= r.fetch_offset AND d.record_offset < r.next_offset
    WHERE is_awaited AND unix_micros(sent_at) >= begun_us AND unix_micros(sent_at) < until_us
),
shifted AS (
    SELECT recording, variant, client_id, topic, has_moved, delay_us
        + CAST(round(1000 * (added_ms - recorded_added_ms)) AS BIGINT) AS value
    FROM delivered WHERE variant IN ('leader', 'closest')
    UNION ALL
    SELECT recording, 'recorded', client_id, topic, has_moved, delay_us
    FROM delivered WHERE variant = 'leader'
)
SELECT recording, variant, CASE WHEN has_moved THEN 'delay' ELSE 'delay_unmoved' END AS metric,
    unnest(CASE WHEN has_moved THEN [concat_ws(' ', client_id, topic), topic, 'all'] ELSE ['all'] END)
        AS group_value, value
FROM shifted
-- name: measures
-- Percentiles of what clients noted, of records that the closest replica is not the leader for, and of
-- the others.
SELECT recording, variant, metric || '_' || figure AS metric,
    CASE group_value WHEN 'all' THEN 'all' ELSE 'client_topic' END AS group_kind, group_value,
    'ms' AS unit, value / 1e3 AS value, NULL AS baseline, sample_count, unknown_count
FROM distributions WHERE figure <> 'mean'
-- name: shown
-- The delay that the closest replica adds. delay_unmoved: how much longer the other records took in one
-- recording than in the other, which is drift between two runs.
SELECT predicted_from, recorded_in, variant, replace(metric, 'delay_p', 'added_delay_p') AS metric,
    group_kind, group_value, unit, 0 AS baseline, predicted - unchanged AS predicted,
    recorded - unchanged AS recorded, metric LIKE 'delay_p%' AS is_judged, NULL AS scale,
    sample_count, unknown_count
FROM side_by_side WHERE predicted_from <> recorded_in
