-- Requests of each connection by correlation id: how many ids are skipped before each (ids_skipped), and
-- forwarded requests that account for some (envelopes).
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
WITH with_envelopes AS (
    SELECT recording, request_id, count_if(is_forwarded) OVER (
            PARTITION BY recording, node_id, connection
            ORDER BY completed_at, line_number, request_id) AS envelopes_before
    FROM logged_requests SEMI JOIN (SELECT * FROM logged_requests WHERE is_forwarded) AS forwarded
        USING (recording, node_id, connection)
),
requests_in_order AS (
    SELECT r.*, leader_epoch, replica_id, coalesce(envelopes_before, 0) AS envelopes_before,
        coalesce(is_metadata, FALSE) OR api_name IN ('VOTE', 'BEGIN_QUORUM_EPOCH',
            'END_QUORUM_EPOCH', 'FETCH_SNAPSHOT', 'ADD_RAFT_VOTER', 'REMOVE_RAFT_VOTER',
            'UPDATE_RAFT_VOTER') AS is_raft
    FROM logged_requests AS r LEFT JOIN logged_fetches USING (recording, request_id)
    LEFT JOIN with_envelopes USING (recording, request_id)
),
beside_previous AS (
    SELECT *, lag(request_id, 2) OVER by_id IS NULL AS is_second, lag({
            'request_id': request_id, 'received_at': received_at, 'completed_at': completed_at,
            'correlation_id': correlation_id, 'envelopes_before': envelopes_before,
            'is_to_controller': is_to_controller, 'leader_epoch': leader_epoch
        }) OVER by_id AS previous
    FROM requests_in_order
    -- above: SaslClientAuthenticator's own
    WHERE NOT is_forwarded AND correlation_id <= 2147483640
    WINDOW by_id AS (
        PARTITION BY recording, node_id, connection ORDER BY correlation_id, request_id)
)
SELECT recording, node_id, connection, client_id, correlation_id, request_id, received_at,
    completed_at, api_name, is_raft, is_rdkafka, is_to_controller, is_second,
    previous.received_at AS previous_at, previous.completed_at AS after_at,
    previous.request_id AS last_request_id, correlation_id - previous.correlation_id - 1 AS ids_skipped,
    greatest(envelopes_before - previous.envelopes_before, 0) AS envelopes,
    coalesce(is_to_controller AND previous.is_to_controller
        OR leader_epoch = previous.leader_epoch AND correlation_id - previous.correlation_id > 10
        OR replica_id >= 0 AND NOT is_raft
        OR is_rdkafka AND NOT is_sasl, FALSE) AS has_one_destination,
    leader_epoch = previous.leader_epoch AS has_one_leader
FROM beside_previous
