-- How often each value occurs in its group, of headlines in each block of clock time: added to what
-- latency_histograms has, whose blocks may be shorter. A value may be listed more than once.
WITH placed AS (
    SELECT latencies.*, CASE WHEN parameter = 'none'
            AND list_contains($headlines, concat_ws('/', metric, of_group.kind))
        THEN block_us ELSE 0 END AS block_us
    FROM latencies JOIN spans ON spans.recording = latencies.recording
),
counted AS (
    SELECT recording, rule, variant, parameter, parameter_value, metric,
        of_group.kind AS group_kind, of_group.value AS group_value, block_us, value_us,
        CASE WHEN block_us > 0 THEN coalesce(at_us, 0) // block_us ELSE 0 END AS block,
        count(*) AS occurs
    FROM placed GROUP BY ALL
),
listed AS (
    SELECT recording, rule, variant, parameter, parameter_value, metric, group_kind, group_value,
        block_us, block, collect_list({'value_us': value_us, 'occurs': occurs}) AS counts
    FROM counted GROUP BY ALL
    UNION ALL
    SELECT h.recording, rule, variant, parameter, parameter_value, metric, group_kind, group_value,
        CASE WHEN h.block_us > 0 THEN spans.block_us ELSE 0 END,
        h.block * h.block_us // spans.block_us, counts
    FROM latency_histograms AS h JOIN spans ON spans.recording = h.recording
)
SELECT recording, rule, variant, parameter, parameter_value, metric, group_kind, group_value,
    block_us, block, flatten(collect_list(counts)) AS counts
FROM listed GROUP BY ALL
