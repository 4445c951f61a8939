-- name: wanted
-- The draft is in no release, so nothing is predicted of another recording.
SELECT predicted_from, recorded_in, 'lowest_acked_offset' AS own_variant, TRUE AS is_judged
FROM pairs WHERE predicted_from = recorded_in
-- name: shares
-- A claim: a broker had applied a topic's creation. What denies it is a later METADATA response of
-- that broker that it knows no such topic (error 3), until the topic's next deletion (it may have
-- been deleted before, and created again). Claims about topics of which the broker never responded
-- so are left out: none could be denied.
-- (API_VERSIONS is not held against it: like METADATA it returns the new image while replicas are
-- still created.) What FETCHes show are no claims of their own: when it had, heartbeats tell.
-- A claim is by the controller's clock: of brokers whose clock differs nothing is judged.
WITH topics_of AS (
    SELECT recording, request_id, api_name, error_code, received_at, unnest(resources) AS resource
    FROM metadata_writes WHERE api_name IN ('CREATE_TOPICS', 'DELETE_TOPICS')
),
created AS (
    SELECT *, resource.name AS topic,
        min(CASE api_name WHEN 'DELETE_TOPICS' THEN received_at END) OVER (
            PARTITION BY recording, resource.name ORDER BY received_at, api_name DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS deleted_at
    FROM topics_of
),
claims AS (
    SELECT v.recording, v.request_id, v.broker_id, evidence, applied_at_latest, topic, deleted_at
    FROM metadata_write_visibility AS v
    JOIN created ON created.recording = v.recording AND created.request_id = v.request_id
    ANTI JOIN (
        SELECT recording, node_id AS broker_id FROM clock_bounds
        WHERE clocks IN ('differ', 'contradicted')
    ) AS apart ON apart.recording = v.recording AND apart.broker_id = v.broker_id
    WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
        AND evidence IN ('heartbeat', 'api_versions')
        AND verdict = 'replayed' AND applied_at_latest IS NOT NULL
        AND api_name = 'CREATE_TOPICS' AND error_code = 0
        AND resource.resource_type = 'topic' AND resource.error_code = 0
),
denials AS (
    SELECT recording, topic, topics.node_id AS broker_id, dequeued_at AS denied_at
    FROM topics JOIN requests USING (recording, request_id)
    WHERE source = 'METADATA' AND api_name = 'METADATA' AND topics.error_code = 3
),
decided AS (
    SELECT recording, evidence, bool_and(applied_at_latest >= denied_at) AS holds
    FROM claims JOIN denials USING (recording, topic, broker_id)
    WHERE deleted_at IS NULL OR denied_at < deleted_at
    GROUP BY recording, evidence, request_id, broker_id, topic
)
SELECT recording, 'claims_no_broker_denied' AS metric, 'evidence' AS group_kind,
    evidence AS group_value, count(*) FILTER (holds) / count(*) AS value, count(*) AS sample_count,
    0 AS unknown_count
FROM decided GROUP BY ALL
