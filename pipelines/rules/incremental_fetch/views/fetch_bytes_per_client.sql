-- What FETCHes of topic partitions cost on the wire, by client and variant of the session protocol.
-- variant: recorded, full, incremental or incremental_draft
-- fetches: FETCHes
-- partitions_per_request: partitions listed in a request, mean
-- partitions_per_response: partitions listed in a response, mean
-- request_bytes: bytes of all requests
-- response_bytes: bytes of all responses
-- record_bytes: bytes of records in them
-- overhead_bytes: bytes both ways that are not records
-- unknown: FETCHes whose bytes are not known; they count nothing above
SELECT recording, variant, node_id, client_kind, client_id,
  count(*) AS fetches,
  avg(request_partitions) AS partitions_per_request,
  avg(response_partitions) AS partitions_per_response,
  sum(request_bytes) AS request_bytes,
  sum(response_bytes) AS response_bytes,
  sum(record_bytes) AS record_bytes,
  sum(request_bytes + response_bytes - coalesce(record_bytes, 0)) AS overhead_bytes,
  count(*) FILTER (WHERE request_bytes IS NULL OR response_bytes IS NULL) AS unknown
FROM fetch_session_outcomes WHERE parameter = 'none'
GROUP BY recording, variant, node_id, client_kind, client_id
