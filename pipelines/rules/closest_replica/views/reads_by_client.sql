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
