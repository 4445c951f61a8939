-- The baseline of a prediction is that nothing changes.
SELECT p.recording, p.variant, p.metric, p.group_kind, p.group_value, p.unit, p.value,
    own.value AS baseline, p.sample_count, p.unknown_count
FROM percentiles AS p
LEFT JOIN percentiles AS own ON own.recording = p.recording AND own.rule = p.rule
    AND own.metric = p.metric AND own.group_value = p.group_value AND own.variant = 'recorded'
WHERE p.rule = 'sooner_fetches'
