-- name: sooner
-- Every FETCH that would have waited less.
-- fetches: how many
SELECT recording, count(*) AS fetches FROM sooner_outcomes
WHERE variant = 'sooner' AND wait_ms > 0 GROUP BY recording
