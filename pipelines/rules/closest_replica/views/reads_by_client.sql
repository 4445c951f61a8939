-- What each client reads of each topic, from where, and what crosses zones from leaders and from the closest replica; whole log.
-- library: what the client calls its library, null if it did not say
-- client_zone: rack id of its FETCHes, else by client_zones; null: not known
-- has_rack_id: it sends one: client.rack is set
-- reads: partitions of FETCHes that returned records
-- bytes_per_second: records and what its FETCHes take besides, both ways
-- across_leader: those that cross zones from leaders, a second; null: where it is is not known
-- across_closest: those from the closest replica
-- dollars_leader: 30 days of them, at the prices that the recording's decision took
-- dollars_closest: likewise
WITH spans AS (
  SELECT recording, greatest(max(unix_micros(built_at)) - min(unix_micros(built_at)), 1) / 1e6 AS span_s
  FROM closest_replica_outcomes GROUP BY recording
),
libraries AS (
  SELECT recording, client_id, min(software_name) AS library FROM requests
  WHERE api_name = 'FETCH' GROUP BY recording, client_id
),
prices AS (
  SELECT recording, CAST(facts['dollars_per_gb'] AS DOUBLE) AS dollars_per_gb
  FROM decisions WHERE rule = 'closest_replica'
),
read AS (
  SELECT o.*, library, span_s, record_bytes + request_bytes + response_bytes AS bytes
  FROM closest_replica_outcomes AS o JOIN spans USING (recording)
  LEFT JOIN libraries AS l ON l.recording = o.recording AND l.client_id = o.client_id
  WHERE parameter = 'none' AND record_bytes > 0
),
summed AS (
  SELECT recording, client_id, library, client_zone, has_rack_id, topic,
    count(*) FILTER (WHERE variant = 'leader') AS reads,
    sum(bytes / span_s) FILTER (WHERE variant = 'leader') AS bytes_per_second,
    sum(if(is_cross_zone, bytes, if(is_cross_zone IS NULL, NULL, 0)) / span_s)
      FILTER (WHERE variant = 'leader') AS across_leader,
    sum(if(is_cross_zone, bytes, if(is_cross_zone IS NULL, NULL, 0)) / span_s)
      FILTER (WHERE variant = 'closest') AS across_closest
  FROM read GROUP BY ALL
)
SELECT summed.*, across_leader * 2.592e-3 * dollars_per_gb AS dollars_leader,
  across_closest * 2.592e-3 * dollars_per_gb AS dollars_closest
FROM summed LEFT JOIN prices USING (recording)
