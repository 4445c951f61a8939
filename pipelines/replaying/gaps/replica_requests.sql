-- FETCHes of replicas and heartbeats of brokers that do not follow from the one before.
--   * A replica's fetch offset in the metadata log rises only by records that the leader returned,
--     and then it does, once it has records of the leader's epoch: KafkaRaftClient ignores only a
--     response to a request that timed out (2 s). On one connection neither the offset nor an epoch
--     falls, unless logs diverge. Which of two lines that contradict each other was damaged does
--     not show: both count as missing.
--   * A Raft client opens each connection by API_VERSIONS, and so does a broker's for heartbeats.
--   * It sends one at a time: on a connection they are in the order of correlation ids, also where
--     stamps, which are off by up to 1 ms, are in another.
WITH fetched AS (
    SELECT *, lag(line) OVER by_time AS previous, lag(line, 2) OVER by_time AS sound,
        lead(line) OVER by_time AS later
    FROM (
        SELECT *, greatest(received_at, least(
                received_at + INTERVAL 1 MILLISECOND, lag(received_at) OVER (
                    PARTITION BY recording, node_id, connection, client_id, replica_id
                    ORDER BY correlation_id)
            )) AS in_turn_at, {
                'request_id': request_id, 'completed_at': completed_at, 'connection': connection,
                'session_id': session_id, 'leader_epoch': leader_epoch,
                'fetch_offset': fetch_offset, 'last_fetched_epoch': last_fetched_epoch,
                'record_bytes': record_bytes, 'high_watermark': high_watermark,
                'is_diverging': is_diverging
            } AS line
        FROM logged_fetches WHERE replica_id >= 0)
    WINDOW by_time AS (
        PARTITION BY recording, node_id, is_metadata, client_id, replica_id
        ORDER BY in_turn_at, correlation_id, request_id)
),
connected AS (
    SELECT recording, node_id, connection, received_at, completed_at, request_id,
        previous.connection AS last_connection, previous.completed_at AS after_at,
        previous.request_id AS last_request_id
    FROM fetched WHERE leader_epoch >= previous.leader_epoch
    UNION ALL
    SELECT recording, node_id, connection, received_at, completed_at, request_id,
        lag(connection) OVER of_broker, lag(completed_at) OVER of_broker,
        lag(request_id) OVER of_broker
    FROM broker_heartbeats WHERE completed_at > $since_at - INTERVAL 11 MINUTE
    WINDOW of_broker AS (PARTITION BY recording, broker_id ORDER BY received_at, request_id)
),
evidence AS (
    SELECT recording, node_id, previous.completed_at AS after_at, completed_at AS before_at,
        previous.request_id AS last_request_id, request_id AS next_request_id,
        CASE WHEN leader_epoch = previous.leader_epoch AND previous.record_bytes = 0
                AND fetch_offset > previous.fetch_offset THEN 'fetch_offset'
            WHEN session_epoch > 1 AND session_id <> previous.session_id THEN 'session'
        END AS evidence
    FROM fetched
    UNION ALL
    SELECT recording, node_id, coalesce(sound.completed_at, previous.completed_at),
        coalesce(later.completed_at, completed_at), coalesce(sound.request_id, previous.request_id),
        coalesce(later.request_id, request_id), 'contradiction'
    FROM fetched
    WHERE connection = previous.connection AND NOT previous.is_diverging
        AND leader_epoch IS NOT NULL AND previous.leader_epoch IS NOT NULL
        AND (leader_epoch < previous.leader_epoch OR fetch_offset < previous.fetch_offset
            OR fetch_offset = previous.fetch_offset AND previous.record_bytes > 0
                AND last_fetched_epoch = leader_epoch
                AND received_at < sound.completed_at + INTERVAL 2 SECOND
            OR last_fetched_epoch < previous.last_fetched_epoch
            OR high_watermark < previous.high_watermark)
    UNION ALL
    SELECT recording, node_id, after_at, completed_at, last_request_id, request_id, 'connection'
    FROM connected JOIN connections USING (recording, node_id, connection)
    WHERE NOT is_opened AND received_at = first_at AND connection <> last_connection
)
-- Lines are missing between these, whichever of them was completed first.
SELECT recording, node_id, least(after_at, before_at) AS after_at,
    greatest(after_at, before_at) AS before_at, last_request_id, next_request_id,
    NULL AS lines_missing, evidence
FROM evidence WHERE evidence IS NOT NULL
