-- name: observed
-- In microseconds, of the steady phase: the stale window of CREATE_TOPICS as clients saw it, not
-- known where a client of some broker never saw the topic; how far estimates, and what is `proved`,
-- are from when brokers noted that they had applied offsets, and estimates from when clients saw topics.
WITH measured AS (
    SELECT recording, 'recorded' AS variant, 'create_topics_stale_window' AS metric,
        requested_at AS moment,
        CASE WHEN count(visible_at) = max(count(*)) OVER (PARTITION BY recording)
            THEN max(unix_micros(visible_at)) END - unix_micros(responded_at) AS value
    FROM client_observations WHERE operation = 'create'
    GROUP BY recording, topic, requested_at, responded_at
    UNION ALL BY NAME
    SELECT recording, 'lowest_acked_offset' AS variant, error_of AS metric, noted_at AS moment,
        abs(unix_micros(applied_at) - unix_micros(noted_at)) AS value
    FROM noted WHERE evidence = 'estimated'
    UNION ALL BY NAME
    SELECT recording, 'proved' AS variant, error_of AS metric, noted_at AS moment,
        abs(unix_micros(applied_at_latest) - unix_micros(noted_at)) AS value
    FROM noted WHERE evidence = 'estimated' AND error_of = 'applied_error_of_writes'
    UNION ALL BY NAME
    SELECT recording, 'lowest_acked_offset' AS variant, 'clients_saw_it_later' AS metric,
        requested_at AS moment, unix_micros(visible_at) - unix_micros(shown_at) AS value
    FROM creations WHERE evidence = 'estimated' AND visible_at IS NOT NULL
)
SELECT recording, variant, metric, 'all' AS group_value, value
FROM measured JOIN phases USING (recording)
WHERE unix_micros(moment) >= from_us AND unix_micros(moment) < until_us
-- name: measures
-- The stale window of CREATE_TOPICS as estimated, beside what clients saw of it, and how far
-- estimates are off; the baseline is what heartbeats prove.
WITH stale_windows AS (
    SELECT recording, variant, 'create_topics_' || metric AS metric, value, sample_count,
        unknown_count
    FROM percentiles
    WHERE group_value = 'CREATE_TOPICS' AND metric IN ('stale_window_p50', 'stale_window_p90')
),
observed_ms AS (
    SELECT recording, variant, metric || '_' || figure AS metric, value / 1000 AS value,
        sample_count, unknown_count
    FROM distributions WHERE figure <> 'mean'
),
measured AS (
    SELECT one.recording, 'lowest_acked_offset' AS variant, one.metric, one.value,
        proved.value AS baseline, one.sample_count, one.unknown_count
    FROM stale_windows AS one
    LEFT JOIN stale_windows AS proved ON proved.recording = one.recording
        AND proved.metric = one.metric AND proved.variant = 'lowest_acked_offset'
    WHERE one.variant = 'estimated'
    UNION ALL BY NAME
    SELECT one.recording, one.variant, one.metric, one.value, proved.value AS baseline,
        one.sample_count, one.unknown_count
    FROM observed_ms AS one
    LEFT JOIN observed_ms AS proved ON proved.recording = one.recording
        AND proved.metric = one.metric AND proved.variant = 'proved'
    WHERE one.variant <> 'proved'
)
SELECT recording, variant, metric, value, baseline, sample_count, unknown_count,
    'all' AS group_kind, 'all' AS group_value, 'ms' AS unit
FROM measured
UNION ALL BY NAME
SELECT recording, 'lowest_acked_offset' AS variant, metric,
    count(*) FILTER (is_same AND verdict <> 'unknown') / count(*) AS value,
    NULL AS baseline, count(*) FILTER (verdict <> 'unknown') AS sample_count,
    count(*) FILTER (verdict = 'unknown') AS unknown_count, 'broker_id' AS group_kind,
    CAST(broker_id AS VARCHAR) AS group_value, 'share' AS unit
FROM (
    SELECT recording, broker_id, verdict, is_same, 'responses_as_computed' AS metric FROM computed
    UNION ALL
    SELECT recording, broker_id, verdict, is_same, 'writes_known_as_returned' FROM announced)
GROUP BY recording, metric, broker_id
-- name: shares
-- Where brokers noted when they had applied an offset, a claim by their heartbeats is no earlier than
-- that, but for 2 ms that stamps leave open.
--
-- A claim is denied by clients that saw the topic on that broker later than one poll after it: they
-- poll again 30 ms after a response, which may have taken 70 ms. What counts is when the broker took
-- up the poll in which the client saw it: a client that has just connected waits longer for that.
--
-- A claim is by the controller's clock: of brokers whose clock differs nothing is judged.
WITH apart AS (
    SELECT recording, node_id AS broker_id FROM clock_bounds
    WHERE clocks IN ('differ', 'contradicted')
),
decided AS (
    SELECT recording, 'claims_not_before_clients_saw_it' AS metric, evidence,
        unix_micros(dequeued_at) - unix_micros(applied_at_latest) <= 100000 AS holds
    FROM creations ANTI JOIN apart USING (recording, broker_id)
    WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
        AND evidence IN ('heartbeat', 'api_versions') AND verdict = 'replayed'
        AND applied_at_latest IS NOT NULL AND dequeued_at IS NOT NULL
    UNION ALL BY NAME
    SELECT recording, 'claims_not_before_brokers_applied' AS metric, evidence,
        unix_micros(applied_at_latest) >= unix_micros(noted_at) - 2000 AS holds
    FROM noted ANTI JOIN apart USING (recording, broker_id)
    WHERE evidence = 'heartbeat' AND verdict = 'replayed'
)
SELECT recording, metric, 'evidence' AS group_kind, evidence AS group_value,
    count(*) FILTER (holds) / count(*) AS value, count(*) AS sample_count, 0 AS unknown_count
FROM decided GROUP BY ALL
-- name: shown
-- Few recordings have what clients or brokers saw, or were made at an interval of the sweep; a
-- prediction that is there and unknown is a miss, and stays. An error is held against none,
-- shares against all but the unknown. Few samples judge nothing.
WITH held AS (
    SELECT *, metric LIKE 'applied_error%' OR metric LIKE 'clients_saw_it_later%' AS is_error,
        unit = 'share' AS is_share
    FROM side_by_side
)
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit, baseline,
    predicted, CASE WHEN is_error THEN 0 WHEN is_share THEN 1 ELSE recorded END AS recorded,
    CASE WHEN is_share THEN 1 - sample_count / (sample_count + unknown_count) END AS scale,
    sample_count + unknown_count >= $samples_min AS is_judged, sample_count, unknown_count
FROM held WHERE sample_count + unknown_count > 0 AND (is_error OR is_share OR recorded IS NOT NULL)
-- name: announced
-- When a response first showed each broker that a write is applied everywhere: replayed, and recorded.
SELECT v.recording, v.broker_id, min_by(computed.verdict, built_at) AS verdict,
    v.known_at IS NOT DISTINCT FROM min(built_at) AS is_same
FROM metadata_write_visibility AS v
JOIN metadata_write_outcomes AS w
    USING (recording, variant, parameter, parameter_value, request_id)
JOIN computed ON computed.recording = v.recording
    AND computed.broker_id = v.broker_id AND highest_offset >= offset_high
WHERE v.variant = 'lowest_acked_offset' AND v.parameter = 'none' AND evidence = 'heartbeat'
GROUP BY v.recording, v.request_id, v.broker_id, v.known_at
-- name: computed
-- Heartbeats at which a controller noted what responses carry under the draft (lowestActiveOffset; and
-- the highest so far, which never falls), beside what the replay has for these. A note is of the next
-- response, but for 2 ms: stamps may be late.
WITH followed AS (
    SELECT h.*, lowest_active_offset, highest_offset, row_number() OVER (
        PARTITION BY h.recording, h.controller_id, h.broker_id, noted_at
        ORDER BY h.built_at, h.request_id) AS place
    FROM (SELECT *, max(lowest_active_offset) OVER (
        PARTITION BY recording ORDER BY noted_at, broker_id) AS highest_offset
        FROM lowest_acked_observations) AS noted
    JOIN heartbeat_outcomes AS h ON h.recording = noted.recording
        AND h.controller_id = noted.controller_id AND h.broker_id = noted.broker_id
        AND h.current_metadata_offset = noted.metadata_offset
        AND unix_micros(built_at) BETWEEN unix_micros(noted_at) - 2000
            AND unix_micros(noted_at) + 10000000
    WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
)
SELECT *, lowest_acknowledged_offset_raw IS NOT DISTINCT FROM lowest_active_offset AS is_same
FROM followed WHERE place = 1
-- name: creations
-- What is known of a topic's creation on each broker, and when a client saw it there. A topic may be
-- created more than once: the client's request nearest to the write is the one.
--
-- A client names a broker for its poll, and its library may use another one. So it saw the topic in
-- the METADATA response that was built last before, whichever broker's that is.
WITH created AS (
    SELECT recording, request_id, received_at, resource.name AS topic
    FROM (SELECT *, unnest(resources) AS resource FROM metadata_writes
        WHERE api_name = 'CREATE_TOPICS' AND error_code = 0)
    WHERE resource.resource_type = 'topic' AND resource.error_code = 0
),
polled AS (
    SELECT recording, topic, requested_at, visible_at,
        max_by(shows.node_id, shows.built_at) AS broker_id,
        max_by(dequeued_at, shows.built_at) AS dequeued_at
    FROM client_observations AS seen
    JOIN topics AS shows USING (recording, topic) JOIN requests USING (recording, request_id)
    WHERE operation = 'create' AND source = 'METADATA' AND shows.error_code = 0
        AND shows.built_at BETWEEN requested_at AND visible_at
    GROUP BY recording, topic, seen.broker_id, requested_at, visible_at
),
ranked AS (
    SELECT v.*, created.topic, requested_at, visible_at, dequeued_at,
        row_number() OVER (
            PARTITION BY v.recording, variant, parameter, parameter_value, v.request_id,
                v.broker_id, evidence, created.topic
            ORDER BY abs(unix_micros(requested_at) - unix_micros(received_at)), requested_at,
                visible_at
        ) AS place
    FROM metadata_write_visibility AS v
    JOIN created ON created.recording = v.recording AND created.request_id = v.request_id
    LEFT JOIN polled ON polled.recording = v.recording
        AND polled.topic = created.topic AND polled.broker_id = v.broker_id
)
SELECT * FROM ranked WHERE place = 1
-- name: noted
-- When a broker had applied an offset, as estimated and proved, beside when it noted that: of the
-- first offset from there on that it noted.
WITH stated AS (
    SELECT recording, broker_id, metadata_offset, applied_at, verdict, 'estimated' AS evidence,
        'applied_error' AS error_of
    FROM applied_offsets WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
    UNION ALL BY NAME
    SELECT recording, broker_id, offset_high AS metadata_offset, applied_at, v.verdict, evidence,
        'applied_error_of_writes' AS error_of, applied_at_latest
    FROM metadata_write_visibility AS v
    JOIN metadata_write_outcomes AS w
        USING (recording, variant, parameter, parameter_value, request_id)
    WHERE offset_high IS NOT NULL
    UNION ALL BY NAME
    SELECT recording, broker_id, metadata_offset, applied_at AS own_at FROM applied_observations
),
beside AS (
    SELECT *, last_value(own_at IGNORE NULLS) OVER (
        PARTITION BY recording, broker_id ORDER BY metadata_offset DESC, own_at NULLS LAST
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS noted_at
    FROM stated
)
SELECT * FROM beside WHERE noted_at IS NOT NULL AND error_of IS NOT NULL
