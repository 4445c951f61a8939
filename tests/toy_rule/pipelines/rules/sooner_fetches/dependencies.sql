-- Nothing.
SELECT 1 AS one WHERE FALSE
