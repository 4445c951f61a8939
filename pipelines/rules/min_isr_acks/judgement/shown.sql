-- Across recordings producers react; the rest is of each PRODUCE as it arrived. Partitions with few
-- PRODUCEs are left out, the others shown. The baseline of another cluster: that producers wait as
-- long there.
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit,
    CASE WHEN predicted_from <> recorded_in AND unit = 'ms' THEN unchanged END AS baseline,
    predicted, recorded, group_kind <> 'topic_partition' AS is_judged, NULL AS scale,
    sample_count, unknown_count
FROM side_by_side WHERE group_kind <> 'topic_partition' OR sample_count + unknown_count >= $few
