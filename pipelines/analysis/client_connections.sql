-- Connections of clients: not those of brokers, controllers and kip-replay record. UTC microseconds.
SELECT r.recording, r.node_id, connection,
    -- host:port-host:port-numbers
    regexp_extract(connection, ':[0-9]+-(.*):[0-9]+(-[0-9]+)+$', 1) AS address,
    max(nullif(software_name, 'unknown')) AS software_name,
    max(nullif(software_version, 'unknown')) AS software_version,
    min(unix_micros(received_at)) AS opened_us, max(unix_micros(completed_at)) AS last_us
FROM requests AS r
    LEFT JOIN (SELECT recording, request_id, replica_id FROM fetches WHERE replica_id >= 0) AS f
    ON f.recording = r.recording AND f.request_id = r.request_id
    -- A broker that forwards calls itself by its id.
    LEFT JOIN (SELECT DISTINCT recording, CAST(node_id AS STRING) AS id FROM ingested_files) AS n
    ON n.recording = r.recording AND id = client_id
GROUP BY r.recording, r.node_id, connection
-- What only brokers and controllers send: clients have ADD_PARTITIONS_TO_TXN up to version 3.
HAVING count(replica_id) + count(id) + count(*) FILTER (WHERE is_forwarded OR api_name IN (
        'ALLOCATE_PRODUCER_IDS', 'ALTER_PARTITION', 'ASSIGN_REPLICAS_TO_DIRS', 'BEGIN_QUORUM_EPOCH',
        'BROKER_HEARTBEAT', 'BROKER_REGISTRATION', 'CONTROLLER_REGISTRATION', 'END_QUORUM_EPOCH',
        'UPDATE_RAFT_VOTER', 'VOTE', 'WRITE_TXN_MARKERS') OR api_name LIKE '%SHARE_GROUP_STATE%'
    OR client_id = 'kip-replay-record' OR (api_name = 'ADD_PARTITIONS_TO_TXN' AND api_version > 3)) = 0
