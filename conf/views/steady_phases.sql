-- The steady phase of each recording: rates and lags are of it.
-- from_us: when it begins, in UTC microseconds since 1970
-- until_us: when it ends, exclusive
SELECT recording, greatest(from_us, logged_us) AS from_us, until_us
FROM text_of_steady_phases JOIN (
    -- where only what is recent is seen
    SELECT recording, min(unix_micros(received_at)) AS logged_us FROM requests GROUP BY recording
  ) AS logged USING (recording)
