-- Lines of this run (1) of a recording that repeat one of it or of an earlier run (0), and which task has
-- read them: of its requests within the spans, and of all rejected lines.
WITH candidates AS (
    SELECT request_id AS line_id, source_file, line_number, task, 1 AS run
    FROM new_requests AS new JOIN tasks ON tasks.file = regexp_extract(filename, '[^/]*$', 0)
    WHERE EXISTS (SELECT 1 FROM spans WHERE spans.node_id = new.node_id
        AND unix_micros(completed_at) BETWEEN first_us AND last_us)
    UNION ALL
    SELECT request_id, source_file, line_number, NULL, 0
    FROM kept_requests AS kept
    WHERE EXISTS (SELECT 1 FROM spans WHERE spans.node_id = kept.node_id
        AND unix_micros(completed_at) BETWEEN first_us AND last_us)
    UNION ALL
    SELECT line_id, source_file, line_number, task, 1
    FROM new_rejected_lines JOIN tasks ON tasks.file = regexp_extract(filename, '[^/]*$', 0)
    UNION ALL
    SELECT line_id, source_file, line_number, NULL, 0 FROM kept_rejected_lines
),
numbered AS (
    SELECT *, row_number() OVER (
        PARTITION BY line_id ORDER BY run, source_file, line_number) AS copy
    FROM candidates
)
SELECT task, line_id FROM numbered WHERE run = 1 AND copy > 1
