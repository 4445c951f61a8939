-- The draft is in no release, so nothing is predicted of another recording.
SELECT predicted_from, recorded_in, 'lowest_acked_offset' AS own_variant, TRUE AS is_judged
FROM pairs WHERE predicted_from = recorded_in
