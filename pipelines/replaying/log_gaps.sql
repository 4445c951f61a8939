-- Gaps in the logs of a recording: what its lines after $since_at show to be missing.
-- $is_final: the logs do not grow any more. voters: ids of the metadata quorum. Where a log grows,
-- rejected_lines are those of the last readings.
--
-- What is known of numbers in requests:
--   * A NetworkClient gives its requests correlation ids that rise by one, over all the nodes that
--     it is connected with. What a connection skips was sent to another node, where its line is, or
--     its line is missing. A ReplicaFetcherThread's client has one destination, as has that of a
--     NodeToControllerChannelManager. An ENVELOPE uses up an id of the latter, but its line shows
--     the request in it, with the id that the broker's own client gave that: each line of a
--     forwarded request accounts for one id that its connection skips.
--   * Raft's and InterBrokerSendThread's clients use up ids for requests that are never sent, but
--     not Raft's between two FETCHes that the leader of one epoch responded to. There a follower
--     whose request timed out, also because it was paused itself, sends to other nodes too.
--   * librdkafka numbers what it sends to each broker, with SASL also what authenticates anew and
--     is not logged.
--   * A fetch session's epoch rises by one from FETCH to FETCH, and begins with 0.
--   * A replica's fetch offset in the metadata log rises only by records that the leader returned,
--     and then it does, once it has records of the leader's epoch: KafkaRaftClient ignores only a
--     response to a request that timed out (2 s). On one connection neither the offset nor an epoch
--     falls, unless logs diverge. Which of two lines that contradict each other was damaged does
--     not show: both count as missing.
--   * A Raft client opens each connection by API_VERSIONS, and so does a broker's for heartbeats:
--     there the request that waits for the connection has the id before that of API_VERSIONS.
--
-- A number that skips others while time runs back was damaged: nothing is missing before it.

WITH fetched AS (
    SELECT recording, request_id, node_id, connection, client_id, correlation_id, received_at,
        completed_at, replica_id, session_id, session_epoch::BIGINT AS session_epoch,
        coalesce(is_cluster_metadata, FALSE) AS is_metadata,
        CASE WHEN is_cluster_metadata AND error_code = 0
            AND get(response_partitions, 0).error_code = 0
            THEN get(request_partitions, 0).current_leader_epoch END AS leader_epoch,
        get(request_partitions, 0).fetch_offset AS fetch_offset,
        get(request_partitions, 0).last_fetched_epoch AS last_fetched_epoch,
        get(response_partitions, 0).record_bytes AS record_bytes,
        get(response_partitions, 0).high_watermark AS high_watermark,
        coalesce(get(response_partitions, 0).diverging_epoch, -1) >= 0 AS is_diverging
    FROM fetches WHERE completed_at > $since_at - INTERVAL 11 MINUTE
),
sent AS (
    SELECT recording, request_id, node_id, connection, client_id, source_file, line_number,
        correlation_id::BIGINT AS correlation_id, received_at, completed_at, api_name, is_forwarded,
        coalesce(regexp_matches(software_name, 'rdkafka|^confluent-kafka'), FALSE) AS is_rdkafka,
        security_protocol LIKE 'SASL%' AS is_sasl,
        api_name IN ('BROKER_HEARTBEAT', 'BROKER_REGISTRATION', 'CONTROLLER_REGISTRATION',
            'ALTER_PARTITION', 'ALLOCATE_PRODUCER_IDS', 'ASSIGN_REPLICAS_TO_DIRS')
            AS is_to_controller
    FROM requests WHERE completed_at > $since_at - INTERVAL 11 MINUTE
),
-- Completion of a log's first line. What a client sent next to a request that was received before it
-- may have been completed before its log began.
begun AS (
    SELECT recording, node_id, min(completed_at) AS begun_at FROM sent GROUP BY recording, node_id
),
steps AS (
    SELECT *, correlation_id - lag(correlation_id) OVER by_id - 1 AS missing,
        greatest(envelopes_before - lag(envelopes_before) OVER by_id, 0) AS envelopes,
        lag(received_at) OVER by_id AS previous_at, lag(completed_at) OVER by_id AS after_at,
        lag(request_id) OVER by_id AS last_request_id,
        lag(request_id, 2) OVER by_id IS NULL AS is_second,
        coalesce(is_to_controller AND lag(is_to_controller) OVER by_id
            OR leader_epoch = lag(leader_epoch) OVER by_id
                AND correlation_id - lag(correlation_id) OVER by_id > 10
            OR replica_id >= 0 AND NOT is_raft
            OR is_rdkafka AND NOT is_sasl, FALSE) AS has_one_destination,
        leader_epoch = lag(leader_epoch) OVER by_id AS has_one_leader
    FROM (
        SELECT sent.*, leader_epoch, replica_id, count_if(is_forwarded) OVER (
                PARTITION BY recording, sent.node_id, sent.connection
                ORDER BY sent.completed_at, line_number, request_id) AS envelopes_before,
            coalesce(is_metadata, FALSE) OR api_name IN ('VOTE', 'BEGIN_QUORUM_EPOCH',
                'END_QUORUM_EPOCH', 'FETCH_SNAPSHOT', 'ADD_RAFT_VOTER', 'REMOVE_RAFT_VOTER',
                'UPDATE_RAFT_VOTER') AS is_raft
        FROM sent LEFT JOIN fetched USING (recording, request_id))
    -- above: SaslClientAuthenticator's own
    WHERE NOT is_forwarded AND correlation_id <= 2147483640
    WINDOW by_id AS (
        PARTITION BY recording, node_id, connection ORDER BY correlation_id, request_id)
),
connections AS (
    SELECT recording, node_id, connection, any_value(client_id) AS client_id,
        min(received_at) AS first_at, max(completed_at) AS last_at,
        bool_or(api_name = 'API_VERSIONS') AS is_opened,
        bool_or(NOT is_raft AND api_name IN (
            'FETCH', 'FIND_COORDINATOR', 'HEARTBEAT', 'CONSUMER_GROUP_HEARTBEAT')) AS is_consumer,
        bool_and(NOT is_raft AND NOT is_rdkafka AND api_name NOT IN (
            'WRITE_TXN_MARKERS', 'ADD_PARTITIONS_TO_TXN'))
            AND max(correlation_id) - min(correlation_id) < 1000 * count(*) AS is_numbered
    FROM steps GROUP BY recording, node_id, connection
),
unopened AS (SELECT recording, node_id, connection, first_at FROM connections WHERE NOT is_opened),
-- Steps of connections that skip ids, each beside the last end of another connection of its client
-- less than a second after it.
skipping AS (
    SELECT *, CASE WHEN last_at = max(ended_at) OVER until THEN max(ended_before) OVER until
        ELSE max(ended_at) OVER until END AS other_ended_at
    FROM (
        SELECT recording, steps.client_id, node_id, request_id, last_request_id, missing,
            envelopes, correlation_id - missing AS first_id, previous_at, after_at, received_at,
            completed_at, received_at + INTERVAL 1 SECOND AS until_at, is_consumer, last_at
        FROM steps JOIN connections USING (recording, node_id, connection)
        WHERE missing > 0 AND after_at <= completed_at AND NOT has_one_destination
            AND (is_numbered OR has_one_leader)
        UNION ALL BY NAME
        SELECT recording, client_id, last_at AS until_at, last_at AS ended_at,
            lag(last_at) OVER (
                PARTITION BY recording, client_id ORDER BY last_at, node_id, connection
            ) AS ended_before
        FROM connections)
    WINDOW until AS (
        PARTITION BY recording, client_id ORDER BY until_at, ended_at IS NOT NULL ROWS UNBOUNDED PRECEDING)
),
-- Ids that a connection skips and that no line of that client has about that time, on any node:
-- clocks may differ. What several connections skip was sent to the node that was silent for
-- longest. A request to a node that dies is lost too, and ends a connection; of a consumer also
-- requests that it does not get to send then (ConsumerNetworkClient).
skipped AS (
    SELECT *, explode(range(first_id, first_id + least(missing, 100))) AS skipped_id
    FROM skipping WHERE missing IS NOT NULL
),
-- Nodes that take nothing up for seconds: they are paused or down, and what was sent to them
-- then may never be logged, as what was sent before their logs begin.
quiet AS (
    SELECT DISTINCT recording, client_id, node_id AS quiet_id, quiet_from, quiet_until
    FROM (
        SELECT recording, node_id, received_at AS quiet_from, lead(received_at) OVER (
            PARTITION BY recording, node_id ORDER BY received_at, request_id) AS quiet_until
        FROM sent
        UNION ALL BY NAME SELECT recording, node_id, begun_at AS quiet_until FROM begun)
    JOIN connections USING (recording, node_id)
    WHERE coalesce(quiet_until > quiet_from + INTERVAL 2 SECOND, quiet_from IS NULL)
),
unseen AS (
    SELECT *, unix_micros(received_at) - unix_micros(after_at) AS silent_us
    FROM skipped WHERE NOT EXISTS (
        FROM sent WHERE sent.recording = skipped.recording AND NOT sent.is_forwarded
            AND sent.client_id IS NOT DISTINCT FROM skipped.client_id
            AND sent.correlation_id = skipped.skipped_id
            AND sent.received_at BETWEEN skipped.previous_at - INTERVAL 2 MINUTE
                AND skipped.received_at + INTERVAL 2 MINUTE)
),
lost AS (
    SELECT recording, node_id, after_at, completed_at, last_request_id, request_id,
        count(*) - any_value(envelopes) AS missing
    FROM unseen
    WHERE NOT coalesce(other_ended_at > after_at
        - CASE WHEN is_consumer THEN INTERVAL 1 MINUTE ELSE INTERVAL 1 SECOND END, FALSE)
    AND NOT EXISTS (
        FROM quiet WHERE quiet.recording = unseen.recording
            AND quiet.client_id IS NOT DISTINCT FROM unseen.client_id
            AND (quiet_id <> unseen.node_id AND quiet_from < unseen.received_at
                OR quiet_from IS NULL)
            AND quiet_until > unseen.previous_at)
    AND NOT EXISTS (
        FROM unseen AS other WHERE other.recording = unseen.recording
            AND other.client_id IS NOT DISTINCT FROM unseen.client_id
            AND other.skipped_id = unseen.skipped_id
            AND other.after_at < unseen.received_at AND unseen.after_at < other.received_at
            AND other.silent_us > unseen.silent_us)
    GROUP BY recording, node_id, after_at, completed_at, last_request_id, request_id
    HAVING count(*) > any_value(envelopes)
),
sessions AS (
    SELECT *, session_epoch - lag(session_epoch) OVER by_epoch - 1 AS missing,
        lag(completed_at) OVER by_epoch AS after_at,
        lag(request_id) OVER by_epoch AS last_request_id
    FROM fetched WHERE session_id > 0 AND session_epoch > 0
    WINDOW by_epoch AS (
        PARTITION BY recording, node_id, session_id ORDER BY session_epoch, request_id)
),
fetchers AS (
    SELECT *, lag(completed_at) OVER by_time AS after_at,
        lag(request_id) OVER by_time AS last_request_id,
        leader_epoch = lag(leader_epoch) OVER by_time AND lag(record_bytes) OVER by_time = 0
            AND fetch_offset > lag(fetch_offset) OVER by_time AS is_ahead,
        session_epoch > 1 AND session_id <> lag(session_id) OVER by_time AS is_in_new_session,
        leader_epoch >= lag(leader_epoch) OVER by_time
            AND connection <> lag(connection) OVER by_time AS is_reconnected,
        connection = lag(connection) OVER by_time AND NOT lag(is_diverging) OVER by_time AND (
            leader_epoch < lag(leader_epoch) OVER by_time
            OR fetch_offset < lag(fetch_offset) OVER by_time
            OR fetch_offset = lag(fetch_offset) OVER by_time AND lag(record_bytes) OVER by_time > 0
                AND last_fetched_epoch = leader_epoch
                AND received_at < lag(completed_at, 2) OVER by_time + INTERVAL 2 SECOND
            OR last_fetched_epoch < lag(last_fetched_epoch) OVER by_time
            OR high_watermark < lag(high_watermark) OVER by_time)
            AND leader_epoch IS NOT NULL AND lag(leader_epoch) OVER by_time IS NOT NULL AS is_behind,
        lag(completed_at, 2) OVER by_time AS sound_at, lead(completed_at) OVER by_time AS next_at,
        lag(request_id, 2) OVER by_time AS sound_id, lead(request_id) OVER by_time AS next_id
    FROM fetched LEFT JOIN unopened USING (recording, node_id, connection) WHERE replica_id >= 0
    WINDOW by_time AS (
        PARTITION BY recording, node_id, is_metadata, client_id, replica_id
        ORDER BY received_at, correlation_id, request_id)
),
heartbeats AS (
    SELECT *, lag(completed_at) OVER of_broker AS after_at,
        lag(request_id) OVER of_broker AS last_request_id,
        connection <> lag(connection) OVER of_broker AS is_reconnected
    FROM broker_heartbeats LEFT JOIN unopened USING (recording, node_id, connection)
    WHERE completed_at > $since_at - INTERVAL 11 MINUTE
    WINDOW of_broker AS (PARTITION BY recording, broker_id ORDER BY received_at, request_id)
),
-- Lines of files that have rejected ones, beside the line before.
written AS (
    SELECT recording, node_id, request_id, completed_at,
        last_value(line_id) OVER earlier IS NOT NULL AS is_after_rejected,
        last_value(completed_at IGNORE NULLS) OVER earlier AS after_at,
        last_value(request_id IGNORE NULLS) OVER earlier AS last_request_id
    FROM (
        SELECT recording, node_id, source_file, line_number, request_id, completed_at
        FROM sent SEMI JOIN rejected_lines USING (recording, node_id, source_file)
        UNION ALL BY NAME
        SELECT recording, node_id, source_file, line_number, line_id FROM rejected_lines)
    WINDOW earlier AS (
        PARTITION BY recording, node_id, source_file ORDER BY line_number, line_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
nodes AS (
    SELECT *, min(begun_at) OVER (PARTITION BY recording) AS begins_at
    FROM (
        SELECT recording, node_id, min(first_received_at) AS first_at,
            max(last_completed_at) AS last_at
        FROM ingested_files WHERE requests > 0 GROUP BY recording, node_id)
    LEFT JOIN begun USING (recording, node_id)
),
-- Nodes that run when their logs begin, seconds after another's.
beginnings AS (
    SELECT DISTINCT recording, node_id, begun_at
    FROM nodes JOIN (
        SELECT recording, node_id, received_at FROM sessions
        WHERE missing IS NULL AND session_epoch > 1
        UNION ALL
        SELECT recording, node_id, received_at FROM fetchers
        WHERE leader_epoch IS NOT NULL AND received_at = first_at
    ) AS running USING (recording, node_id)
    WHERE nodes.first_at > begins_at + INTERVAL 5 SECOND
        AND received_at < begun_at + INTERVAL 2 SECOND
        AND NOT EXISTS (
            FROM sent WHERE sent.recording = nodes.recording AND api_name = 'VOTE'
                AND sent.received_at BETWEEN begun_at - INTERVAL 10 SECOND AND begun_at)
),
-- When a log shows that a controller is active, and the ends of all logs.
led AS (
    SELECT recording, led_at, lead(led_at) OVER (PARTITION BY recording ORDER BY led_at) AS next_at
    FROM (
        SELECT recording, completed_at AS led_at FROM fetched WHERE leader_epoch IS NOT NULL
        UNION ALL SELECT recording, greatest(first_at, $since_at) FROM nodes
        UNION ALL SELECT recording, last_at FROM nodes WHERE $is_final) AS times
),
evidence AS (
    SELECT recording, node_id, after_at, completed_at AS before_at, last_request_id, request_id,
        missing - envelopes AS missing, 'correlation_id' AS evidence
    FROM steps
    WHERE missing - envelopes BETWEEN 1 AND 1000000000 AND has_one_destination
        AND after_at <= completed_at
        AND NOT (is_to_controller AND is_second AND missing - envelopes = 1)
    UNION ALL SELECT *, 'correlation_id' FROM lost
    UNION ALL
    SELECT recording, node_id, after_at, completed_at, last_request_id, request_id, missing,
        'session_epoch'
    FROM sessions WHERE missing BETWEEN 1 AND 1000000000 AND after_at <= completed_at
    UNION ALL
    -- Lines are missing between these, whichever of them was completed first.
    SELECT recording, node_id, least(after_at, completed_at), greatest(after_at, completed_at),
        last_request_id, request_id, NULL, evidence
    FROM (
        SELECT recording, node_id, after_at, completed_at, last_request_id, request_id,
            explode([CASE WHEN is_ahead THEN 'fetch_offset' END,
                CASE WHEN is_in_new_session THEN 'session' END,
                CASE WHEN is_reconnected AND received_at = first_at THEN 'connection' END])
            AS evidence
        FROM fetchers
        UNION ALL
        SELECT recording, node_id, coalesce(sound_at, after_at), coalesce(next_at, completed_at),
            coalesce(sound_id, last_request_id), coalesce(next_id, request_id), 'contradiction'
        FROM fetchers WHERE is_behind
        UNION ALL
        SELECT recording, node_id, after_at, completed_at, last_request_id, request_id, 'connection'
        FROM heartbeats WHERE is_reconnected AND received_at = first_at
        UNION ALL
        SELECT recording, node_id, after_at, completed_at, last_request_id, request_id,
            'rejected_line'
        FROM written
        WHERE is_after_rejected AND request_id IS NOT NULL AND after_at IS NOT NULL)
    WHERE evidence IS NOT NULL
),
-- A wait of seconds between two lines tells little where a shorter one within it tells more.
telling AS (
    SELECT * FROM (
        SELECT *, min(before_at) OVER (
                PARTITION BY recording, node_id ORDER BY after_at DESC) AS first_before_at,
            max(after_at) OVER (PARTITION BY recording, node_id, before_at) AS last_after_at
        FROM evidence)
    WHERE before_at < after_at + INTERVAL 5 SECOND
        OR before_at = first_before_at AND after_at = last_after_at
),
islands AS (
    SELECT *, count_if(is_first) OVER (
        PARTITION BY recording, node_id ORDER BY after_at, before_at) AS island
    FROM (
        SELECT *, coalesce(after_at > max(before_at) OVER (
            PARTITION BY recording, node_id ORDER BY after_at, before_at
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), TRUE) AS is_first
        FROM telling)
)
SELECT recording, node_id, min(after_at) AS after_at, max(before_at) AS before_at,
    array_to_string(list_sort(list(DISTINCT evidence)), ', ') AS evidence,
    greatest(sum(missing) FILTER (WHERE evidence = 'correlation_id'),
        sum(missing) FILTER (WHERE evidence = 'session_epoch'))::BIGINT AS lines_missing,
    min_by(last_request_id, (after_at, last_request_id)) AS last_request_id,
    max_by(request_id, (before_at, request_id)) AS next_request_id
FROM islands GROUP BY recording, node_id, island HAVING max(before_at) > $since_at
UNION ALL
SELECT recording, node_id, NULL, begun_at, 'begins_late', NULL, NULL, NULL
FROM beginnings WHERE begun_at > $since_at
UNION ALL
-- A leader that still announces itself to voters, seconds after the end of its own log.
SELECT recording, nodes.node_id, last_at, NULL, 'ends_early', NULL, NULL, NULL
FROM nodes WHERE $is_final AND EXISTS (
    FROM sent WHERE sent.recording = nodes.recording AND sent.node_id <> nodes.node_id
        AND api_name = 'BEGIN_QUORUM_EPOCH' AND client_id = 'raft-client-' || nodes.node_id
        AND received_at > nodes.last_at + INTERVAL 5 SECOND)
UNION ALL
-- A log may be empty of a broker that was down, and of a controller that got no request while another
-- one was active, though it fetched from that.
SELECT recording, node_id, NULL, NULL,
    CASE WHEN bool_or(is_given) THEN 'logger_off' ELSE 'no_log' END, NULL, NULL, NULL
FROM (
    SELECT recording, broker_id AS node_id, TRUE AS has_run FROM heartbeats
    UNION ALL SELECT recording, replica_id, NOT is_metadata FROM fetched WHERE replica_id >= 0
    UNION ALL SELECT recording, subject_id, TRUE FROM metadata_offsets WHERE kind = 'broker_epoch'
    UNION ALL SELECT recording, voter, FALSE FROM voters SEMI JOIN nodes USING (recording)
) AS known ANTI JOIN nodes USING (recording, node_id)
LEFT JOIN (SELECT DISTINCT recording, node_id, TRUE AS is_given FROM ingested_files) AS given
    USING (recording, node_id)
GROUP BY recording, node_id
HAVING bool_or(has_run) OR NOT coalesce(bool_or(is_given), FALSE)
    OR recording IN (SELECT recording FROM led WHERE next_at > led_at + INTERVAL 5 SECOND)
