-- What FETCHes of topic partitions take on the wire over time, by variant of the session protocol and kind of client.
-- variant: recorded, full, incremental or incremental_draft
-- bucket_at: the bucket begins; the FETCH was taken up in it
-- fetches: FETCHes
-- unknown: those whose bytes are not known; they count nothing below
-- request_bytes: bytes of the requests
-- response_bytes: bytes of the responses
-- record_bytes: bytes of records in them
-- bytes_per_second: both ways, over the whole bucket, also where the log begins or ends within it
-- overhead_per_second: those that are not records
WITH known AS (
  SELECT *, verdict IN ('replayed', 'bounded') AS is_known FROM fetch_session_outcomes
  WHERE parameter = 'none' AND verdict <> 'not_applicable'
),
summed AS (
  SELECT recording, variant, client_kind,
    timestamp_micros(unix_micros(dequeued_at) - unix_micros(dequeued_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
    count(*) AS fetches,
    count(*) FILTER (WHERE NOT is_known OR request_bytes IS NULL OR response_bytes IS NULL) AS unknown,
    coalesce(sum(request_bytes) FILTER (WHERE is_known), 0) AS request_bytes,
    coalesce(sum(response_bytes) FILTER (WHERE is_known), 0) AS response_bytes,
    coalesce(sum(record_bytes) FILTER (WHERE is_known AND response_bytes IS NOT NULL), 0)
      AS record_bytes
  FROM known JOIN time_buckets USING (recording) GROUP BY ALL
)
SELECT *, (request_bytes + response_bytes) / bucket_s AS bytes_per_second,
  (request_bytes + response_bytes - record_bytes) / bucket_s AS overhead_per_second
FROM summed
