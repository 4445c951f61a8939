-- Epochs that a fetch session skips: they rise by one from FETCH to FETCH, and begin with 0. One that
-- skips others while time runs back was damaged.
SELECT recording, node_id, after_at, completed_at AS before_at, last_request_id,
    request_id AS next_request_id, epochs_skipped AS lines_missing, 'session_epoch' AS evidence
FROM (
    SELECT *, session_epoch - lag(session_epoch) OVER by_epoch - 1 AS epochs_skipped,
        lag(completed_at) OVER by_epoch AS after_at, lag(request_id) OVER by_epoch AS last_request_id
    FROM logged_fetches WHERE session_id > 0 AND session_epoch > 0
    WINDOW by_epoch AS (
        PARTITION BY recording, node_id, session_id ORDER BY session_epoch, request_id))
WHERE epochs_skipped BETWEEN 1 AND 1000000000 AND after_at <= completed_at
