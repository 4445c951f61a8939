-- Mean, p50 and p90 of integers: of each group of a rule's `observed`. A null value is unknown.
-- Percentiles are the values at rank floor(q * (n - 1)), the unknown ranked last: exact, and in
-- memory that only grows with the distinct values.
WITH histogram AS (
    SELECT recording, variant, metric, group_value, value, count(*) AS occurs
    FROM observed GROUP BY ALL
),
ranked AS (
    SELECT *,
        sum(occurs) OVER (PARTITION BY recording, variant, metric, group_value) AS n,
        sum(occurs) OVER (
            PARTITION BY recording, variant, metric, group_value ORDER BY value NULLS LAST
        ) AS up_to
    FROM histogram
)
SELECT recording, variant, metric, group_value, figure,
    CASE figure
        WHEN 'mean' THEN sum(value * occurs) / sum(occurs) FILTER (value IS NOT NULL)
        WHEN 'p50' THEN min(value) FILTER (up_to > (n - 1) * 5 // 10)
        WHEN 'p90' THEN min(value) FILTER (up_to > (n - 1) * 9 // 10)
    END AS value,
    coalesce(sum(occurs) FILTER (value IS NOT NULL), 0) AS sample_count,
    coalesce(sum(occurs) FILTER (value IS NULL), 0) AS unknown_count
FROM ranked CROSS JOIN (VALUES ('mean'), ('p50'), ('p90')) AS figures(figure)
GROUP BY recording, variant, metric, group_value, figure
