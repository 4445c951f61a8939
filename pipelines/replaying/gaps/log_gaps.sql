-- Gaps in the logs of a recording: what its lines after $since_at show to be missing. The texts beside
-- this give pairs of lines between which others are missing, and logs that are incomplete.
-- $is_final: the logs do not grow any more. voters: ids of the metadata quorum.
WITH evidence AS (
    SELECT * FROM lost_ids
    UNION ALL SELECT * FROM lost_epochs
    UNION ALL SELECT * FROM replica_requests
    UNION ALL SELECT * FROM rejected_between
),
-- A wait of seconds between two lines tells little where a shorter one within it tells more.
telling AS (
    SELECT * FROM (
        SELECT *, min(before_at) OVER (
                PARTITION BY recording, node_id ORDER BY after_at DESC) AS first_before_at,
            max(after_at) OVER (PARTITION BY recording, node_id, before_at) AS last_after_at
        FROM evidence)
    WHERE before_at < after_at + INTERVAL 5 SECOND
        OR before_at = first_before_at AND after_at = last_after_at
),
-- Those that overlap are one gap.
numbered AS (
    SELECT *, count_if(is_first) OVER (
        PARTITION BY recording, node_id ORDER BY after_at, before_at) AS number
    FROM (
        SELECT *, coalesce(after_at > max(before_at) OVER (
            PARTITION BY recording, node_id ORDER BY after_at, before_at
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), TRUE) AS is_first
        FROM telling)
)
SELECT recording, node_id, min(after_at) AS after_at, max(before_at) AS before_at,
    array_to_string(list_sort(list(DISTINCT evidence)), ', ') AS evidence,
    greatest(sum(lines_missing) FILTER (WHERE evidence = 'correlation_id'),
        sum(lines_missing) FILTER (WHERE evidence = 'session_epoch'))::BIGINT AS lines_missing,
    min_by(last_request_id, (after_at, last_request_id)) AS last_request_id,
    max_by(next_request_id, (before_at, next_request_id)) AS next_request_id
FROM numbered ANTI JOIN selections USING (recording)
GROUP BY recording, node_id, number HAVING max(before_at) > $since_at
UNION ALL
SELECT recording, node_id, after_at, before_at, evidence, NULL, NULL, NULL
FROM (SELECT recording, node_id, after_at, before_at, evidence FROM incomplete_logs
    UNION ALL SELECT recording, node_id, after_at, before_at, evidence FROM filtered_logs)
ANTI JOIN selections USING (recording)
UNION ALL
-- A selection is one gap at each node.
SELECT recording, node_id, NULL, NULL, min(evidence), NULL, NULL, NULL
FROM selections JOIN (SELECT DISTINCT recording, node_id FROM logged_requests) USING (recording)
GROUP BY recording, node_id
