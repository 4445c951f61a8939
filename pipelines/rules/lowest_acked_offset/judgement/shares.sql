-- A claim: a broker had applied a topic's creation. What denies it is a later METADATA response of
-- that broker that it knows no such topic (error 3), until the topic's next deletion (it may have
-- been deleted before, and created again). Claims about topics of which the broker never responded
-- so are left out: none could be denied. Where brokers noted when they had applied an offset, a
-- claim by their heartbeats is no earlier than that, but for 2 ms that stamps leave open.
-- (API_VERSIONS is not held against it: like METADATA it returns the new image while replicas are
-- still created.) What FETCHes show are no claims of their own: when it had, heartbeats tell.
--
-- It is denied by clients that saw the topic on that broker later than one poll after it: they poll
-- again 30 ms after a response, which may have taken 70 ms. What counts is when the broker took up
-- the poll in which the client saw it: a client that has just connected waits longer for that.
--
-- A claim is by the controller's clock: of brokers whose clock differs nothing is judged.
WITH apart AS (
    SELECT recording, node_id AS broker_id FROM clock_bounds
    WHERE clocks IN ('differ', 'contradicted')
),
claims AS (
    SELECT recording, request_id, broker_id, evidence, applied_at_latest, topic, deleted_at,
        dequeued_at
    FROM creations ANTI JOIN apart USING (recording, broker_id)
    WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
        AND evidence IN ('heartbeat', 'api_versions')
        AND verdict = 'replayed' AND applied_at_latest IS NOT NULL
),
denials AS (
    SELECT recording, topic, topics.node_id AS broker_id, dequeued_at AS denied_at
    FROM topics JOIN requests USING (recording, request_id)
    WHERE source = 'METADATA' AND api_name = 'METADATA' AND topics.error_code = 3
),
decided AS (
    SELECT recording, 'claims_no_broker_denied' AS metric, evidence,
        bool_and(applied_at_latest >= denied_at) AS holds
    FROM claims JOIN denials USING (recording, topic, broker_id)
    WHERE deleted_at IS NULL OR denied_at < deleted_at
    GROUP BY recording, evidence, request_id, broker_id, topic
    UNION ALL BY NAME
    SELECT recording, 'claims_not_before_clients_saw_it' AS metric, evidence,
        unix_micros(dequeued_at) - unix_micros(applied_at_latest) <= 100000 AS holds
    FROM claims WHERE dequeued_at IS NOT NULL
    UNION ALL BY NAME
    SELECT recording, 'claims_not_before_brokers_applied' AS metric, evidence,
        unix_micros(applied_at_latest) >= unix_micros(noted_at) - 2000 AS holds
    FROM noted ANTI JOIN apart USING (recording, broker_id)
    WHERE evidence = 'heartbeat' AND verdict = 'replayed'
)
SELECT recording, metric, 'evidence' AS group_kind, evidence AS group_value,
    count(*) FILTER (holds) / count(*) AS value, count(*) AS sample_count, 0 AS unknown_count
FROM decided GROUP BY ALL
