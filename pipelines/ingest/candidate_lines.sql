-- Lines of one recording of this run (1) and of earlier ones (0) that can be copies of one another: its
-- requests within the spans, and all rejected lines.
SELECT request_id AS line_id, new.node_id, source_file, line_number,
    connection, correlation_id, api_key, completed_at, is_forwarded, task, 1 AS run
FROM new_requests AS new JOIN tasks ON tasks.file = regexp_extract(filename, '[^/]*$', 0)
WHERE EXISTS (SELECT 1 FROM spans WHERE spans.node_id = new.node_id
    AND unix_micros(completed_at) BETWEEN first_us AND last_us)
UNION ALL
SELECT request_id, kept.node_id, source_file, line_number, connection, correlation_id,
    api_key, completed_at, is_forwarded, NULL, 0
FROM kept_requests AS kept
WHERE EXISTS (SELECT 1 FROM spans WHERE spans.node_id = kept.node_id
    AND unix_micros(completed_at) BETWEEN first_us AND last_us)
UNION ALL
SELECT line_id, node_id, source_file, line_number, NULL, NULL, NULL, NULL, NULL, task, 1
FROM new_rejected_lines JOIN tasks ON tasks.file = regexp_extract(filename, '[^/]*$', 0)
UNION ALL
SELECT line_id, node_id, source_file, line_number, NULL, NULL, NULL, NULL, NULL, NULL, 0
FROM kept_rejected_lines
