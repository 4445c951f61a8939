SELECT recording, variant, metric, group_kind, group_value, unit, value, NULL AS baseline,
    sample_count, unknown_count
FROM percentiles WHERE rule = 'one_ms_sooner'
