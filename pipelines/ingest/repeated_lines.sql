-- Lines of this run that repeat one, and in which task; of copies within a task, whether one stays.
WITH numbered AS (
    SELECT *, row_number() OVER (
        PARTITION BY line_id ORDER BY run, source_file, line_number) AS copy
    FROM candidate_lines
)
SELECT line_id, node_id, source_file, line_number, is_rejected, task, stays
FROM (
    SELECT *, min(copy) OVER (PARTITION BY line_id, task) = 1 AS stays FROM numbered WHERE run = 1)
WHERE copy > 1
