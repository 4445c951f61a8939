-- The buckets of time that the views over time sum up in: at most 240 for a recording, from its first arrival to its last completion.
-- bucket_s: seconds of a bucket: of 1, 2, 5, 10, 20, 30, 60, ... the least that 240 buckets are enough for
-- first_at: the first bucket begins; each begins at a multiple of bucket_s since 1970 in UTC
-- last_at: the last bucket begins
-- buckets: how many there are
-- span_s: seconds from its first arrival to its last completion
WITH spans AS (
  SELECT recording,
    min(unix_micros(received_at)) AS first_us,
    max(unix_micros(completed_at)) AS last_us
  FROM requests GROUP BY recording
),
tried AS (
  SELECT recording, bucket_s, (last_us - first_us) / 1e6 AS span_s,
    first_us - first_us % (bucket_s * 1000000) AS first_us,
    last_us - last_us % (bucket_s * 1000000) AS last_us
  FROM spans CROSS JOIN (
    VALUES (CAST(1 AS BIGINT)), (2), (5), (10), (20), (30), (60), (120), (300), (600), (1800),
      (3600), (7200), (21600), (43200), (86400), (604800), (31536000)
  ) AS widths(bucket_s)
),
enough AS (
  SELECT recording,
    min(bucket_s) AS bucket_s,
    min_by(first_us, bucket_s) AS first_us,
    min_by(last_us, bucket_s) AS last_us,
    max(span_s) AS span_s
  FROM tried WHERE last_us - first_us < 240 * bucket_s * 1000000 GROUP BY recording
)
SELECT recording, bucket_s,
  timestamp_micros(first_us) AS first_at,
  timestamp_micros(last_us) AS last_at,
  CAST((last_us - first_us) / (bucket_s * 1000000) AS BIGINT) + 1 AS buckets,
  span_s
FROM enough
