-- name: cross_zone_traffic
-- Bytes of records a second that cross zones, of all that brokers send to others: consumers, followers, producers; steady phase.
-- sender: who reads or writes: consumers, followers or producers
-- variant: from leaders or from the closest replica; as recorded of the others
-- bytes_per_second: bytes of records
-- across_per_second: those between two zones
-- unknown_per_second: those of clients or brokers whose zone is not known
-- evenly_per_second: of these what would cross if they were spread evenly over the zones, which is an assumption
-- place: order of the rows
WITH racks AS (SELECT recording, broker_id, min(rack) AS rack FROM brokers GROUP BY recording, broker_id),
sent AS (
  SELECT f.recording, 2 AS place, 'followers' AS sender, built_at, one.rack <> other.rack AS crosses,
    part.record_bytes AS bytes
  FROM (SELECT *, explode(response_partitions) AS part FROM fetches WHERE NOT is_cluster_metadata) AS f
  LEFT JOIN racks AS one ON one.recording = f.recording AND one.broker_id = node_id
  LEFT JOIN racks AS other ON other.recording = f.recording AND other.broker_id = replica_id
  WHERE replica_id >= 0
  UNION ALL
  -- Only of what reads too, by that client id, is it known where it is.
  SELECT p.recording, 3, 'producers', built_at, rack <> client_zone, part.record_bytes
  FROM (SELECT *, explode(partitions) AS part FROM produces) AS p
  LEFT JOIN racks ON racks.recording = p.recording AND broker_id = node_id
  LEFT JOIN (SELECT recording, client_id, min(client_zone) AS client_zone
    FROM closest_replica_outcomes GROUP BY recording, client_id
    HAVING count(DISTINCT client_zone) = 1) AS z
  ON z.recording = p.recording AND z.client_id = p.client_id
),
rates AS (
  SELECT recording, 1 AS place, 'consumers' AS sender, variant, bytes_per_second AS rate,
    CASE client_kind WHEN 'other zone' THEN TRUE WHEN 'same zone' THEN FALSE END AS crosses
  FROM bandwidth_summary
  WHERE rule = 'closest_replica' AND parameter = 'none' AND variant IN ('leader', 'closest')
  UNION ALL
  SELECT recording, place, sender, 'recorded', bytes * 1e6 / (until_us - from_us), crosses
  FROM sent JOIN steady_phases USING (recording)
  WHERE unix_micros(built_at) >= from_us AND unix_micros(built_at) < until_us
),
summed AS (
  SELECT recording, sender, variant, place, sum(rate) AS bytes_per_second,
    coalesce(sum(rate) FILTER (WHERE crosses), 0) AS across_per_second,
    coalesce(sum(rate) FILTER (WHERE crosses IS NULL), 0) AS unknown_per_second
  FROM rates GROUP BY recording, sender, variant, place
)
SELECT recording, sender, variant, bytes_per_second, across_per_second, unknown_per_second,
  CASE variant WHEN 'leader' THEN CAST(facts['even_before'] AS DOUBLE)
    WHEN 'closest' THEN CAST(facts['even_after'] AS DOUBLE)
    ELSE unknown_per_second * (1 - 1 / CAST(facts['zones'] AS DOUBLE)) END AS evenly_per_second, place
FROM summed LEFT JOIN (SELECT recording, facts FROM decisions WHERE rule = 'closest_replica') AS d USING (recording)
-- name: reads_by_client
-- What each client reads of each topic, from where, and what crosses zones from leaders and from the closest replica; steady phase.
-- library: what the client calls its library, null if it did not say
-- client_zone: rack id of its FETCHes, else by client_zones; null: not known
-- has_rack_id: it sends one: client.rack is set
-- reads: partitions of FETCHes that returned records
-- bytes_per_second: bytes of records; what FETCHes take besides would change with the broker, and is left out
-- across_leader: those that cross zones from leaders, a second; null: where it is is not known
-- across_closest: those from the closest replica
-- dollars_leader: 30 days of them, at the prices that the recording's decision took
-- dollars_closest: likewise
WITH libraries AS (
  SELECT recording, client_id, min(software_name) AS library FROM requests
  WHERE api_name = 'FETCH' GROUP BY recording, client_id
),
prices AS (
  SELECT recording, CAST(facts['dollars_per_gb'] AS DOUBLE) AS dollars_per_gb
  FROM decisions WHERE rule = 'closest_replica'
),
read AS (
  -- each its share of what bandwidth_summary has
  SELECT o.*, library, s.bytes_per_second * o.record_bytes
    / sum(o.record_bytes) OVER (PARTITION BY o.recording, o.variant, s.node_id, client_kind) AS rate
  FROM closest_replica_outcomes AS o JOIN steady_phases AS p ON p.recording = o.recording
    AND unix_micros(dequeued_at) >= from_us AND unix_micros(built_at) < until_us
  JOIN bandwidth_summary AS s ON s.recording = o.recording AND s.rule = o.rule AND s.variant = o.variant
    AND s.parameter = o.parameter AND s.node_id = coalesce(replica_id, leader_id, o.node_id)
    AND direction = 'response' AND client_kind = CASE WHEN is_cross_zone THEN 'other zone'
      WHEN is_cross_zone IS NULL THEN 'zone not known' ELSE 'same zone' END
  LEFT JOIN libraries AS l ON l.recording = o.recording AND l.client_id = o.client_id
  WHERE o.parameter = 'none' AND o.record_bytes > 0
),
summed AS (
  SELECT recording, client_id, library, client_zone, has_rack_id, topic,
    count(*) FILTER (WHERE variant = 'leader') AS reads,
    sum(rate) FILTER (WHERE variant = 'leader') AS bytes_per_second,
    sum(if(is_cross_zone, rate, if(is_cross_zone IS NULL, NULL, 0)))
      FILTER (WHERE variant = 'leader') AS across_leader,
    sum(if(is_cross_zone, rate, if(is_cross_zone IS NULL, NULL, 0)))
      FILTER (WHERE variant = 'closest') AS across_closest
  FROM read GROUP BY ALL
)
SELECT summed.*, across_leader * 2.592e-3 * dollars_per_gb AS dollars_leader,
  across_closest * 2.592e-3 * dollars_per_gb AS dollars_closest
FROM summed LEFT JOIN prices USING (recording)
