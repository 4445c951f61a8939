-- Rows of `headlines`: what each rule's `stated` figures are before and after its change, both
-- simulated, the bounds of the difference, and how self-checks of the figure came out. A self-check
-- that misses its tolerance widens the bounds by its error.
WITH figures AS (
    SELECT recording, rule, metric, figure, group_kind, group_value, before_variant,
        after_variant, unit, before, after, low, high, count, unknown_count
    FROM paired_differences
    UNION ALL
    SELECT recording, rule, metric, figure, group_kind, group_value, side.before_variant,
        side.after_variant, 'ms', CASE WHEN side.sign < 0 THEN value ELSE 0e0 END,
        CASE WHEN side.sign < 0 THEN 0e0 ELSE value END,
        CASE WHEN side.sign < 0 THEN -high ELSE low END,
        CASE WHEN side.sign < 0 THEN -low ELSE high END, count, unknown_count
    FROM (
        SELECT recording, rule, metric, group_kind, group_value, figure, count, unknown_count,
            CASE figure WHEN 'p50' THEN p50_ms ELSE p90_ms END AS value,
            CASE figure WHEN 'p50' THEN p50_low_ms ELSE p90_low_ms END AS low,
            CASE figure WHEN 'p50' THEN p50_high_ms ELSE p90_high_ms END AS high,
            unnest([
                {'before_variant': variant, 'after_variant': 'none', 'sign': -1},
                {'before_variant': 'none', 'after_variant': variant, 'sign': 1}]) AS side
        FROM latency_summary CROSS JOIN (VALUES ('p50'), ('p90')) AS of(figure)
        WHERE parameter = 'none'
    ) AS alone
),
chosen AS (
    SELECT stated.rule, stated.name, stated.role, stated.limit_name, stated.self_check, stated.place,
        recording, figures.group_kind, figures.group_value, before_variant, after_variant, unit,
        figures.before AS value_before, figures.after AS value_after, low, high, count, unknown_count,
        row_number() OVER (
            PARTITION BY recording, stated.rule, place
            ORDER BY figures.after IS NULL OR coalesce(
                unknown_count > $unknown_share_max * (count + unknown_count), FALSE),
                CASE WHEN is_largest THEN -figures.after END, figures.group_value, low IS NULL,
                choice) AS rank
    FROM stated JOIN figures ON figures.rule = stated.rule AND figures.metric = stated.metric
        AND figures.figure = stated.figure AND figures.group_kind = stated.group_kind
        AND before_variant = stated.before AND after_variant = stated.after
        AND coalesce(stated.group_value, figures.group_value) = figures.group_value
),
checked AS (
    SELECT recording, rule, metric AS self_check, CAST(count(*) AS BIGINT) AS self_checks,
        count(*) FILTER (passed) AS self_checks_passed,
        max(CASE WHEN NOT passed THEN coalesce(abs(relative_error), 1e0) END) AS self_check_error
    FROM prediction_accuracy
    WHERE kind = 'self_check' AND tolerance IS NOT NULL AND is_enough
        AND group_kind IN ('all', 'node_id', 'replica_kind', 'client_kind')
    GROUP BY recording, rule, metric
),
widened AS (
    SELECT chosen.*, self_checks, self_checks_passed, self_check_error,
        coalesce(self_check_error, 0) * greatest(value_before, value_after) AS error
    FROM chosen LEFT JOIN checked ON checked.recording = chosen.recording
        AND checked.rule = chosen.rule AND checked.self_check = chosen.self_check
    WHERE rank = 1
)
SELECT recording, rule, name AS figure, role, CAST(place AS INT) AS place, unit, group_kind,
    group_value, before_variant, after_variant, value_before AS before, value_after AS after,
    low - error AS low, high + error AS high, count, unknown_count, limit_name, self_check,
    self_checks, self_checks_passed, self_check_error
FROM widened
