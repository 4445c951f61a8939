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
