-- How often each value occurs in its group; of headlines in each block of the recording's span, the
-- ends taking what is beyond it.
SELECT latencies.recording, rule, variant, parameter, parameter_value, metric,
    of_group.kind AS group_kind, of_group.value AS group_value, value_us,
    CASE WHEN parameter = 'none'
            AND list_contains($headlines, concat_ws('/', metric, of_group.kind))
        THEN greatest(from_us // block_us, least((until_us - 1) // block_us, at_us // block_us))
            - from_us // block_us
        ELSE 0 END AS block,
    count(*) AS occurs
FROM latencies LEFT JOIN spans ON spans.recording = latencies.recording GROUP BY ALL
