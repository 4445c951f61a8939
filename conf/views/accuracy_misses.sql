-- Predictions that are off by more than their tolerance, the worst first when ordered by times_tolerance.
-- predicted_from: recording the prediction was made from
-- recorded_in: recording it is held against; the same for a self-check
-- kind: other_cluster, self_check or bound
-- rule: rule that predicts
-- variant: protocol that was predicted
-- metric: what is measured
-- group_kind: what the group is
-- group_value: which one
-- unit: unit of predicted, recorded and tolerance
-- predicted: the replay's figure
-- recorded: what the brokers did
-- tolerance: largest error that passes
-- times_tolerance: the error in tolerances; null where the tolerance is 0
-- unknown_count: outcomes that were unknown
SELECT
  predicted_from, recorded_in, kind, rule, variant, metric, group_kind, group_value, unit,
  predicted, recorded, tolerance,
  abs(error) / nullif(tolerance, 0) AS times_tolerance,
  unknown_count
FROM prediction_accuracy
WHERE NOT passed
