-- The lowest version of each API that each client used, and from which release on no broker serves it (KIP-896). Requests of brokers and controllers are not in it, nor those of kip-replay record; an API that the log does not show is unknown.
-- address: its host, without the port
-- software_name: what the connection calls its library in API_VERSIONS; null of clients older than KIP-511 (Kafka 2.4), and of others that do not say it
-- software_version: likewise
-- lowest_version: the lowest version of its requests
-- requests: requests of that version
-- deprecated: those of them that the broker logged as deprecated; 3.7 to 3.9 do so of all that 4.0 does not serve, the older ones of more
-- not_served_from: the first release that does not serve that version; null if every release that is known does
-- lowest_served: the lowest version that this release serves
-- served_again_from: a later release that serves lower ones again; null if none does
WITH of_connections AS (
  SELECT r.recording, node_id, connection,
    -- host:port-host:port-numbers
    regexp_extract(connection, ':[0-9]+-(.*):[0-9]+(-[0-9]+)+$', 1) AS address,
    max(nullif(software_name, 'unknown')) AS software_name,
    max(nullif(software_version, 'unknown')) AS software_version
  FROM requests AS r
  LEFT JOIN (SELECT recording, request_id, replica_id FROM fetches WHERE replica_id >= 0) AS f
    ON f.recording = r.recording AND f.request_id = r.request_id
  GROUP BY r.recording, node_id, connection
  -- What only brokers and controllers send: clients have ADD_PARTITIONS_TO_TXN up to version 3.
  HAVING count(replica_id) + count(*) FILTER (WHERE is_forwarded OR api_name IN (
      'ALLOCATE_PRODUCER_IDS', 'ALTER_PARTITION', 'ASSIGN_REPLICAS_TO_DIRS', 'BEGIN_QUORUM_EPOCH',
      'BROKER_HEARTBEAT', 'BROKER_REGISTRATION', 'CONTROLLER_REGISTRATION', 'END_QUORUM_EPOCH',
      'UPDATE_RAFT_VOTER', 'VOTE', 'WRITE_TXN_MARKERS') OR api_name LIKE '%SHARE_GROUP_STATE%'
    OR (api_name = 'ADD_PARTITIONS_TO_TXN' AND api_version > 3)) = 0
),
of_versions AS (
  SELECT r.recording, client_id, principal, address, c.software_name, c.software_version,
    api_name, api_version, count(*) AS requests,
    count(*) FILTER (WHERE is_deprecated_version) AS deprecated
  FROM requests AS r JOIN of_connections AS c
    ON c.recording = r.recording AND c.node_id = r.node_id AND c.connection = r.connection
  -- Any broker responds to every version of API_VERSIONS. A broker that forwards calls itself by its id.
  WHERE api_name <> 'API_VERSIONS' AND coalesce(client_id, '') <> 'kip-replay-record'
    AND NOT EXISTS (SELECT 1 FROM ingested_files AS f
      WHERE f.recording = r.recording AND CAST(f.node_id AS STRING) = client_id)
  GROUP BY r.recording, client_id, principal, address, c.software_name, c.software_version,
    api_name, api_version
),
lowest AS (
  SELECT recording, client_id, principal, address, software_name, software_version, api_name,
    min(api_version) AS lowest_version, min_by(requests, api_version) AS requests,
    min_by(deprecated, api_version) AS deprecated
  FROM of_versions
  GROUP BY recording, client_id, principal, address, software_name, software_version, api_name
)
SELECT recording, client_id, principal, address, software_name, software_version, l.api_name,
  lowest_version, requests, deprecated, not_served_from, lowest_served, served_again_from
FROM lowest AS l LEFT JOIN served_versions AS s
  ON s.api_name = l.api_name AND lowest_version < s.lowest_served
