-- When the cluster of a recording is up as a whole: from the moment at which every broker of its start
-- has been unfenced, until the brokers are shut down one after the other and none comes back. UTC
-- microseconds. A selection of requests has none, for what it lacks did not happen.
WITH heartbeats AS (
    SELECT recording, broker_id, min(unix_micros(built_at)) FILTER (WHERE NOT is_fenced) AS unfenced_us,
        min(unix_micros(received_at)) AS first_us,
        max(unix_micros(received_at)) FILTER (WHERE NOT want_shut_down) AS wanted_us,
        max(unix_micros(received_at)) FILTER (WHERE want_shut_down) AS shut_down_us
    FROM broker_heartbeats WHERE error_code = 0 GROUP BY recording, broker_id
),
-- Since when each broker shuts down for good; null: it does not.
endings AS (
    SELECT b.recording, b.broker_id, max(l.unfenced_us) AS unfenced_us, max(l.first_us) AS first_us,
        min(unix_micros(b.received_at)) FILTER (
            WHERE want_shut_down AND unix_micros(b.received_at) > coalesce(l.wanted_us, 0)) AS ending_us
    FROM broker_heartbeats AS b JOIN heartbeats AS l ON l.recording = b.recording AND l.broker_id = b.broker_id
    WHERE error_code = 0 GROUP BY b.recording, b.broker_id
),
-- The last shutdowns, each within 10 s of the next one.
in_turn AS (
    SELECT recording, ending_us, sum(CASE WHEN ending_us < next_us - 10000000 THEN 1 ELSE 0 END)
        OVER (PARTITION BY recording ORDER BY ending_us DESC, broker_id ROWS UNBOUNDED PRECEDING) AS turn
    FROM (SELECT *, lead(ending_us) OVER (PARTITION BY recording ORDER BY ending_us, broker_id DESC) AS next_us
        FROM endings WHERE ending_us IS NOT NULL) AS each
),
bounds AS (
    SELECT recording, count(ending_us) = count(*) AS ends,
        max(unfenced_us) FILTER (WHERE first_us < start_us + 60000000) AS from_us
    FROM (SELECT *, min(first_us) OVER (PARTITION BY recording) AS start_us FROM endings) AS each
    GROUP BY recording
),
whole AS (
    SELECT recording, min(unix_micros(first_received_at)) AS first_us, max(unix_micros(last_completed_at)) + 1 AS until_us
    FROM ingested_files ANTI JOIN (
        SELECT recording FROM log_gaps WHERE evidence IN ('deprecated_only', 'sampled', 'no_fetch')) AS selections
        USING (recording)
    WHERE requests > 0 GROUP BY recording
)
SELECT w.recording, coalesce(max(b.from_us), max(w.first_us)) AS from_us,
    coalesce(min(ending_us) FILTER (WHERE b.ends AND turn = 0), max(w.until_us)) AS until_us
FROM whole AS w LEFT JOIN bounds AS b ON b.recording = w.recording
    LEFT JOIN in_turn AS e ON e.recording = w.recording
GROUP BY w.recording
