-- Voters are shown and not judged. One FETCH more of a rare completion is no large error: it is
-- held against all FETCHes.
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit, baseline,
    predicted, recorded, is_judged AND group_value <> 'voter' AS is_judged,
    CASE group_kind WHEN 'completion' THEN sum(recorded) OVER (
        PARTITION BY predicted_from, recorded_in, metric, group_kind) END AS scale,
    sample_count, unknown_count
FROM side_by_side
