-- Incidents of all kinds, numbered by begin.
WITH found AS (
    SELECT * FROM of_groups
    UNION ALL SELECT * FROM of_clients
    UNION ALL SELECT * FROM of_load
),
within AS (
    SELECT f.* FROM found AS f JOIN health_spans AS h ON h.recording = f.recording
        AND f.begin_us >= h.from_us AND f.begin_us < h.until_us
)
SELECT recording, CAST(row_number() OVER (PARTITION BY recording ORDER BY begin_us, kind, get(subjects, 0)) AS INT) AS number,
    kind, is_planned, timestamp_micros(begin_us) AS begin_at, timestamp_micros(end_us) AS end_at, subjects, count,
    population, worst_s, cause, caused_by, CAST(NULL AS INT) AS cause_number, node_id, clients, request_id
FROM within
