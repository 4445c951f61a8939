-- Incidents of all kinds, numbered by begin, and of which one of a node each is a consequence.
CREATE TEMP MACRO or_never(us) AS coalesce(us, 9000000000000000);
WITH found AS (
    SELECT * FROM of_nodes
    UNION ALL SELECT * FROM of_partitions
    UNION ALL SELECT * FROM of_groups
    UNION ALL SELECT * FROM of_clients
    UNION ALL SELECT * FROM of_load
),
numbered AS (
    SELECT f.*, CAST(row_number() OVER (PARTITION BY f.recording ORDER BY begin_us, kind, get(subjects, 0)) AS INT) AS number
    FROM found AS f JOIN health_spans AS h ON h.recording = f.recording AND begin_us >= h.from_us AND begin_us < h.until_us
),
-- Partitions lose a leader or replicas, and requests fail, while a node is away, or soon after it is back.
followed AS (
    SELECT f.recording, f.number, max_by(n.number, (n.begin_us, n.number)) AS cause_number,
        max_by(CASE WHEN n.is_planned THEN 1 WHEN NOT n.is_planned THEN 0 ELSE -1 END, (n.begin_us, n.number)) AS is_planned
    FROM numbered AS f JOIN numbered AS n ON n.recording = f.recording
        AND f.begin_us BETWEEN n.begin_us - 1000000 AND or_never(n.end_us) + 10000000
        AND (starts_with(n.kind, 'node_') OR n.kind IN ('rolling_restart', 'controller_handover'))
    WHERE f.kind IN ('offline_partitions', 'under_replicated', 'below_min_isr', 'not_enough_replicas', 'failing_requests')
    GROUP BY f.recording, f.number
)
SELECT n.recording, n.number, kind, CASE WHEN f.number IS NULL THEN n.is_planned WHEN f.is_planned >= 0 THEN f.is_planned = 1 END AS is_planned,
    timestamp_micros(begin_us) AS begin_at, timestamp_micros(end_us) AS end_at, subjects, count, population, worst_s, cause,
    caused_by, cause_number, node_id, clients, request_id
FROM numbered AS n LEFT JOIN followed AS f ON f.recording = n.recording AND f.number = n.number
