-- The open-loop check: the share of a leader's responses that the rule explains, once it has begun.
SELECT recording, 'responses_explained' AS metric, 'all' AS group_kind, 'all' AS group_value,
    count(*) FILTER (verdict = 'replayed' AND completion <> 'unexplained') / count(*) AS value,
    count(*) AS sample_count, count(*) FILTER (verdict = 'unknown') AS unknown_count
FROM fetch_parking_outcomes
WHERE variant = 'recorded' AND verdict <> 'not_applicable' AND reason IS DISTINCT FROM $middle_of_epoch
GROUP BY recording
