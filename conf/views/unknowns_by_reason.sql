-- What the logs could not decide, and why: every outcome that is unknown counts as a miss.
-- table_name: outcome table that has the rows
-- outcomes: rows, sweeps included
SELECT recording, rule, variant, table_name, reason, count(*) AS outcomes
FROM unknown_outcomes GROUP BY recording, rule, variant, table_name, reason
