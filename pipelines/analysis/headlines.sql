-- Rows of `headlines`: what each rule's `stated` figures are before and after its change, the bounds
-- of the difference, and how self-checks of the figure came out. What the cluster ran stands for the
-- protocol of the same side. A self-check that misses its tolerance widens the bounds by its error.
WITH sides AS (
    SELECT stated.*, facts.recording,
        CASE WHEN is_protocol AND is_comparable AND NOT in_use AND NOT is_mixed THEN 'recorded' ELSE before END
            AS before_variant,
        CASE WHEN is_protocol AND is_comparable AND in_use THEN 'recorded' ELSE after END AS after_variant
    FROM stated JOIN facts ON facts.rule = stated.rule
),
figures AS (
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
    SELECT sides.*, figures.group_value, unit, figures.before AS value_before,
        figures.after AS value_after, low, high, count, unknown_count,
        row_number() OVER (
            PARTITION BY sides.recording, sides.rule, place
            ORDER BY figures.after IS NULL OR coalesce(
                unknown_count > $unknown_share_max * (count + unknown_count), FALSE),
                figures.group_value, low IS NULL, choice) AS rank
    FROM sides JOIN figures ON figures.recording = sides.recording
        AND figures.rule = sides.rule AND figures.metric = sides.metric
        AND figures.figure = sides.figure AND figures.group_kind = sides.group_kind
        AND figures.before_variant = sides.before_variant
        AND figures.after_variant = sides.after_variant
),
checked AS (
    SELECT recording, rule, metric AS self_check, CAST(count(*) AS BIGINT) AS self_checks,
        count(*) FILTER (passed) AS self_checks_passed,
        max(CASE WHEN NOT passed THEN abs(relative_error) END) AS self_check_error
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
