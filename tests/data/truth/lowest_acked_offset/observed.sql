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
