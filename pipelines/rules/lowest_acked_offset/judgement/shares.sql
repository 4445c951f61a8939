-- A claim: a broker had applied a topic's creation. What denies it is a later METADATA response of
-- that broker that it knows no such topic (error 3), until the topic's next deletion (it may have
-- been deleted before, and created again). Claims about topics of which the broker never responded
-- so are left out: none could be denied. Where brokers noted when they had applied an offset, a
-- claim by their heartbeats or FETCHes is no earlier than that, but for 2 ms that stamps leave open.
-- (API_VERSIONS is not held against it: like METADATA it returns the new image while replicas are
-- still created.)
--
-- It is denied by clients that saw the topic later than one poll after it. Clients poll each broker
-- again 30 ms after its response, which may have taken 70 ms; but for a broker that stands still
-- (its heartbeats are over 4 s apart): its clients give up after 2 s and poll again, until 3 s after
-- it goes on. A client names a broker for its poll, and its library may use another one, so this is
-- a rougher truth.
WITH claims AS (
    SELECT recording, request_id, broker_id, evidence, applied_at_latest, topic, deleted_at,
        requested_at, unix_micros(visible_at) AS visible_us
    FROM creations
    WHERE variant = 'lowest_acked_offset' AND parameter = 'none' AND evidence <> 'estimated'
        AND verdict = 'replayed' AND applied_at_latest IS NOT NULL
),
denials AS (
    SELECT recording, topic, topics.node_id AS broker_id, dequeued_at
    FROM topics JOIN requests USING (recording, request_id)
    WHERE source = 'METADATA' AND api_name = 'METADATA' AND topics.error_code = 3
),
beats AS (
    SELECT recording, broker_id, unix_micros(received_at) AS until_us,
        lag(unix_micros(received_at)) OVER (
            PARTITION BY recording, broker_id ORDER BY received_at, request_id) AS since_us
    FROM broker_heartbeats
),
polls AS (
    SELECT claims.recording, evidence, request_id, claims.broker_id, topic,
        visible_us - unix_micros(applied_at_latest) AS late_us,
        100000 + CASE WHEN count(since_us) > 0 THEN 2000000 ELSE 0 END AS late_us_max
    FROM claims
    LEFT JOIN beats ON beats.recording = claims.recording AND beats.broker_id = claims.broker_id
        AND until_us - since_us > 4000000 AND visible_us BETWEEN since_us AND until_us + 3000000
    WHERE requested_at IS NOT NULL
    GROUP BY claims.recording, evidence, request_id, claims.broker_id, topic, visible_us,
        applied_at_latest
),
decided AS (
    SELECT recording, 'claims_no_broker_denied' AS metric, evidence,
        bool_and(applied_at_latest >= dequeued_at) AS holds
    FROM claims JOIN denials USING (recording, topic, broker_id)
    WHERE deleted_at IS NULL OR dequeued_at < deleted_at
    GROUP BY recording, evidence, request_id, broker_id, topic
    UNION ALL BY NAME
    SELECT recording, 'claims_not_before_clients_saw_it' AS metric, evidence,
        late_us <= late_us_max AS holds
    FROM polls
    UNION ALL BY NAME
    SELECT recording, 'claims_not_before_brokers_applied' AS metric, evidence,
        unix_micros(applied_at_latest) >= unix_micros(noted_at) - 2000 AS holds
    FROM noted WHERE evidence IN ('heartbeat', 'fetch_high_watermark') AND verdict = 'replayed'
)
SELECT recording, metric, 'evidence' AS group_kind, evidence AS group_value,
    count(*) FILTER (holds) / count(*) AS value, count(*) AS sample_count, 0 AS unknown_count
FROM decided GROUP BY ALL
