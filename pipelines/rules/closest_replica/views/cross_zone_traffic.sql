-- Bytes a second that cross zones, of all that brokers send to others: consumers, followers, producers; whole log.
-- sender: who reads or writes: consumers, followers or producers
-- variant: from leaders or from the closest replica; as recorded of the others
-- bytes_per_second: records and what requests take besides, both ways; of unknown size count nothing
-- across_per_second: those between two zones
-- unknown_per_second: those of clients or brokers whose zone is not known
-- evenly_per_second: of these what would cross if they were spread evenly over the zones, which is an assumption
-- place: order of the rows
WITH racks AS (SELECT recording, broker_id, min(rack) AS rack FROM brokers GROUP BY recording, broker_id),
sent AS (
  SELECT recording, 1 AS place, 'consumers' AS sender, variant, built_at, is_cross_zone AS crosses,
    record_bytes + request_bytes + response_bytes AS bytes
  FROM closest_replica_outcomes
  WHERE parameter = 'none' AND record_bytes > 0 AND variant IN ('leader', 'closest')
  UNION ALL
  SELECT f.recording, 2, 'followers', 'recorded', built_at, lower(one.rack) <> lower(other.rack),
    request_bytes + response_bytes
  FROM fetches AS f
  LEFT JOIN racks AS one ON one.recording = f.recording AND one.broker_id = node_id
  LEFT JOIN racks AS other ON other.recording = f.recording AND other.broker_id = replica_id
  WHERE replica_id >= 0 AND NOT is_cluster_metadata
  UNION ALL
  -- Only of what reads too, by that client id, is it known where it is.
  SELECT p.recording, 3, 'producers', 'recorded', built_at, lower(rack) <> lower(client_zone),
    request_bytes + response_bytes
  FROM produces AS p LEFT JOIN racks ON racks.recording = p.recording AND broker_id = node_id
  LEFT JOIN (SELECT recording, client_id, min(client_zone) AS client_zone
    FROM closest_replica_outcomes GROUP BY recording, client_id
    HAVING count(DISTINCT client_zone) = 1) AS z
  ON z.recording = p.recording AND z.client_id = p.client_id
),
zones AS (SELECT recording, count(DISTINCT lower(rack)) AS zones FROM racks GROUP BY recording),
spans AS (
  SELECT recording, greatest(max(unix_micros(built_at)) - min(unix_micros(built_at)), 1) / 1e6 AS span_s
  FROM sent GROUP BY recording
)
SELECT recording, sender, variant, bytes / span_s AS bytes_per_second,
  across / span_s AS across_per_second, unknown / span_s AS unknown_per_second,
  unknown / span_s * (1 - 1e0 / nullif(zones, 0)) AS evenly_per_second, place
FROM (
  SELECT recording, sender, variant, place, sum(bytes) AS bytes,
    coalesce(sum(bytes) FILTER (WHERE crosses), 0) AS across,
    coalesce(sum(bytes) FILTER (WHERE crosses IS NULL), 0) AS unknown
  FROM sent GROUP BY recording, sender, variant, place)
JOIN spans USING (recording) LEFT JOIN zones USING (recording)
