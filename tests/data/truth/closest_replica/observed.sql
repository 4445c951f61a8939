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
