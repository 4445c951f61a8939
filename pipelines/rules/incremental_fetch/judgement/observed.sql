-- In the steady phase, by kind of client. Of an unknown outcome no partitions and bytes count.
-- known/V, recorded/known/V: but for sessions older than the log.
-- same_set: FETCHes whose client requests the same partitions as before. Bursts of new ones come
-- when an application happens to begin, not when the protocol says so.
SELECT recording, side AS variant, metric, client_kind AS group_value,
    CASE WHEN is_known OR side = 'recorded' AND verdict <> 'unknown' THEN
        CASE WHEN metric LIKE '%request_partitions' THEN request_partitions
            WHEN metric LIKE '%response_partitions' THEN response_partitions
            ELSE request_bytes + coalesce(response_bytes, 0) END END AS value
FROM (
    SELECT *, unnest(CASE variant WHEN 'recorded'
        THEN ['recorded', 'recorded/known/full', 'recorded/known/incremental']
        ELSE [variant, 'known/' || variant] END) AS side
    FROM compared JOIN phases USING (recording)
) AS each
CROSS JOIN (VALUES
    ('request_partitions'), ('response_partitions'),
    ('same_set_request_partitions'), ('same_set_response_partitions'), ('fetch_bytes')
) AS metrics(metric)
WHERE parameter = 'none' AND NOT (is_older AND side LIKE '%known/%')
    AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
    AND (metric NOT LIKE 'same_set%'
        OR added_partitions = 0 AND coalesce(forgotten_partitions, 0) = 0)
