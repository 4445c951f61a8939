-- From the first to the last request of each recording: UTC microseconds, the end exclusive.
SELECT recording, unix_micros(min(first_received_at)) AS from_us,
    unix_micros(max(last_completed_at)) + 1 AS until_us
FROM ingested_files WHERE requests > 0 GROUP BY recording
