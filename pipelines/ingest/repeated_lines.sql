-- Lines of this run that repeat one of it or of an earlier run, and which task has read them.
WITH numbered AS (
    SELECT *, row_number() OVER (
        PARTITION BY line_id ORDER BY run, source_file, line_number) AS copy
    FROM candidate_lines
)
SELECT task, line_id FROM numbered WHERE run = 1 AND copy > 1
