-- FETCHes.
SELECT recording, count(*) AS requests, FALSE AS in_use, FALSE AS is_mixed
FROM sooner_outcomes WHERE variant = 'recorded' GROUP BY recording
