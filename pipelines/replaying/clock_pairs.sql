-- Pairs of events on two nodes whose order is certain: how many of a kind, by how much the stamps of
-- those on `after` are later (milliseconds, rounded up). They are sums: those of the time until
-- $until_us are kept (is_kept), and the next run adds those after it ($since_us), of lines after
-- $since_at. So what makes a pair is found within $reach_us, by the stamps.
--
-- Where an event on one node comes before one on another, the second's stamp less the first's bounds
-- how far the second's clock can be ahead (replay/kafka/clocks.py). Two kinds:
--   * forwarded: a broker takes a write up, a controller gets it in an ENVELOPE and responds, the
--     broker responds (ForwardingManager). Both lines have the client's id, correlation id and API,
--     which clients repeat: only two that have no other partner, name the same, and come from the
--     broker's host are held together.
--   * image: a broker's API_VERSIONS carries the offset of its metadata image. It was not committed
--     yet when the leader took up a FETCH to which it returned a high watermark at or below it. And
--     what a later heartbeat of the broker has beyond it was not in the image yet.
--
-- voters: ids of the metadata quorum, by recording. The least and the greatest of them spare what
-- other nodes logged from being read.

-- Who connected, of a line's connection: local host:port-remote host:port-processor-index.
CREATE TEMP MACRO remote_host(connection) AS
    regexp_extract(connection, '^.*?:\d+-(.*):\d+(-\d+)+$', 1);

WITH writes AS (
    SELECT recording, node_id, request_id, is_forwarded, dequeued_at, received_at, built_at,
        client_id, api_name, api_version, correlation_id, remote_host(connection) AS host,
        list_transform(resources, lambda one: one.name) AS names
    FROM metadata_writes WHERE completed_at > $since_at
),
hosts AS (
    SELECT DISTINCT recording, broker_id AS broker, remote_host(connection) AS host
    FROM broker_heartbeats WHERE completed_at > $since_at
),
of_controllers AS (
    SELECT *, count(*) OVER (PARTITION BY recording, node_id, broker, client_id, api_name,
        api_version, correlation_id, names ORDER BY unix_micros(received_at)
        RANGE BETWEEN $reach_us PRECEDING AND $reach_us FOLLOWING) AS copies
    FROM writes JOIN hosts USING (recording, host) WHERE is_forwarded
),
of_brokers AS (
    SELECT *, count(*) OVER (PARTITION BY recording, node_id, client_id, api_name, api_version,
        correlation_id, names ORDER BY unix_micros(received_at)
        RANGE BETWEEN $reach_us PRECEDING AND $reach_us FOLLOWING) AS copies
    FROM writes WHERE NOT is_forwarded
),
forwarded AS (
    SELECT c.recording, c.broker, c.node_id AS controller, unix_micros(c.received_at) AS at_us,
        unix_micros(c.received_at) - unix_micros(b.dequeued_at) AS there_us,
        unix_micros(b.built_at) - unix_micros(c.built_at) AS back_us,
        count(*) OVER (PARTITION BY c.recording, c.request_id) AS partners
    FROM of_controllers AS c JOIN of_brokers AS b
    ON b.recording = c.recording AND b.node_id = c.broker AND b.node_id <> c.node_id
        AND b.api_name = c.api_name AND b.api_version = c.api_version
        AND b.correlation_id = c.correlation_id AND b.names = c.names
        AND b.client_id IS NOT DISTINCT FROM c.client_id
        AND abs(unix_micros(c.received_at) - unix_micros(b.received_at)) <= $reach_us
    WHERE c.copies = 1 AND b.copies = 1
),
-- What brokers had applied, and when controllers heard of it.
heartbeats AS (
    SELECT recording, node_id AS controller, broker_id AS broker,
        current_metadata_offset AS metadata_offset, unix_micros(received_at) AS received_us
    FROM broker_heartbeats WHERE completed_at > $since_at
),
-- What leaders returned of their high watermarks. A deposed one sees nothing rise.
returned AS (
    SELECT recording, node_id AS controller,
        get(request_partitions, 0).current_leader_epoch AS epoch,
        unix_micros(dequeued_at) AS taken_us,
        get(response_partitions, 0).high_watermark AS high_watermark
    FROM (
        SELECT * FROM fetches
        WHERE node_id BETWEEN $voters_from AND $voters_to AND is_cluster_metadata AND error_code = 0
            AND completed_at > $since_at
    ) AS raft SEMI JOIN voters ON raft.recording = voters.recording AND node_id = voter
    WHERE get(response_partitions, 0).error_code = 0
        AND get(response_partitions, 0).high_watermark >= 0
),
images AS (
    SELECT recording, node_id AS broker, metadata_offset, unix_micros(dequeued_at) AS taken_us,
        unix_micros(built_at) AS built_us
    FROM metadata_offsets
    ANTI JOIN voters ON metadata_offsets.recording = voters.recording AND node_id = voter
    WHERE kind = 'finalized_features_epoch' AND built_at > $since_at
),
-- Until when the high watermark had not risen above an image.
committed AS (
    SELECT *, max(high_watermark) OVER (PARTITION BY recording, controller, epoch) AS highest,
        max(taken_us) OVER (
            PARTITION BY recording, controller, epoch ORDER BY metadata_offset) AS until_us
    FROM (
        SELECT recording, controller, epoch, high_watermark, high_watermark AS metadata_offset,
            taken_us
        FROM returned
        UNION ALL BY NAME
        SELECT recording, controller, epoch, broker, metadata_offset, built_us
        FROM (SELECT DISTINCT recording, controller, epoch FROM returned) AS leaders
        JOIN images USING (recording)
        SEMI JOIN heartbeats USING (recording, broker))
),
-- Since when controllers know that brokers had applied more than what they showed to clients.
applied AS (
    SELECT *, min(received_us) OVER (
        PARTITION BY recording, controller, broker ORDER BY metadata_offset DESC, kind NULLS LAST
        ROWS UNBOUNDED PRECEDING) AS since_us
    FROM (
        SELECT recording, controller, broker, metadata_offset, received_us FROM heartbeats
        UNION ALL BY NAME
        SELECT recording, controller, broker, metadata_offset, 'image' AS kind, taken_us,
            built_us AS at_us
        FROM (SELECT DISTINCT recording, controller, broker FROM heartbeats) AS heard
        JOIN images USING (recording, broker))
),
pairs AS (
    SELECT recording, broker AS before, controller AS after, 'forwarded' AS kind, at_us,
        there_us AS gap_us
    FROM forwarded WHERE partners = 1
    UNION ALL
    SELECT recording, controller, broker, 'forwarded', at_us, back_us
    FROM forwarded WHERE partners = 1
    UNION ALL
    SELECT recording, controller, broker, 'image', built_us, built_us - until_us
    FROM committed WHERE broker IS NOT NULL AND until_us IS NOT NULL AND metadata_offset < highest
    UNION ALL
    SELECT recording, broker, controller, kind, at_us, since_us - taken_us
    FROM applied WHERE kind IS NOT NULL AND since_us IS NOT NULL
)
SELECT recording, before, after, kind, CAST(ceil(gap_us / 1000e0) AS BIGINT) AS gap_ms,
    at_us <= $until_us AS is_kept, count(*) AS pairs
FROM pairs WHERE at_us > $since_us AND gap_us <= $reach_us
GROUP BY ALL
