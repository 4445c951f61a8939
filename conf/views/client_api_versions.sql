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
WITH of_versions AS (
  SELECT r.recording, client_id, principal, address, c.software_name, c.software_version,
    api_name, api_version, count(*) AS requests,
    count(*) FILTER (WHERE is_deprecated_version) AS deprecated
  FROM requests AS r JOIN client_connections AS c
    ON c.recording = r.recording AND c.node_id = r.node_id AND c.connection = r.connection
  -- Any broker responds to every version of API_VERSIONS.
  WHERE api_name <> 'API_VERSIONS'
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
