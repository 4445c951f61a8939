-- What outcomes up to a time follow from besides the log up to it: when replicas learned of commits.
-- hwm_parking emits its lags later than that, and those of a former leader when the log is closed.
-- Once emitted they stay: high_watermark_lag has those that were since.
SELECT leader_id, leader_epoch, variant, count(*) AS learned FROM high_watermark_lag
WHERE parameter = 'none' AND unix_micros(learned_at) <= $until_us
GROUP BY ALL ORDER BY leader_id, leader_epoch, variant
