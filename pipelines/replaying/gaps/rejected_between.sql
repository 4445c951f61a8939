-- Lines with rejected ones between them, also in two files of a log that rotates: who is killed
-- leaves half a line at an end. Where a log grows, rejected_lines are those of the last readings.
SELECT recording, node_id, least(after_at, completed_at) AS after_at,
    greatest(after_at, completed_at) AS before_at, last_request_id, request_id AS next_request_id,
    NULL AS lines_missing, 'rejected_line' AS evidence
FROM (
    SELECT recording, node_id, request_id, completed_at,
        last_value(line_id) OVER earlier IS NOT NULL AS is_after_rejected,
        last_value(completed_at IGNORE NULLS) OVER earlier AS after_at,
        last_value(request_id IGNORE NULLS) OVER earlier AS last_request_id
    FROM (
        SELECT *, min(completed_at) OVER (PARTITION BY recording, node_id, source_file) AS file_from
        FROM (
            SELECT recording, node_id, source_file, line_number, request_id, completed_at
            FROM logged_requests SEMI JOIN rejected_lines USING (recording, node_id)
            UNION ALL BY NAME
            SELECT recording, node_id, source_file, line_number, line_id FROM rejected_lines))
    WINDOW earlier AS (
        PARTITION BY recording, node_id
        ORDER BY file_from NULLS LAST, source_file, line_number, line_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
WHERE is_after_rejected AND request_id IS NOT NULL AND after_at IS NOT NULL
