-- The first line of this run that contradicts another of the same request, and how many do. On a
-- connection a correlation id is one request's; ids begin again when a node does. Not forwarded ones,
-- whose id is one of many clients' on one connection.
WITH pairs AS (
    SELECT here.node_id, here.source_file AS file, here.line_number AS line,
        other.source_file AS other_file, other.line_number AS other_line
    FROM candidate_lines AS here JOIN candidate_lines AS other
    ON here.node_id = other.node_id AND here.connection = other.connection
        AND here.correlation_id = other.correlation_id AND here.api_key = other.api_key
        AND here.completed_at = other.completed_at AND here.line_id <> other.line_id
    WHERE here.run = 1 AND NOT here.is_forwarded AND NOT other.is_forwarded
)
SELECT *, count(*) OVER () AS pairs FROM pairs
ORDER BY node_id, file, line, other_file, other_line LIMIT 1
