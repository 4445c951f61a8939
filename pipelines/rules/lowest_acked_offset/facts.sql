-- Metadata writes, and after how long every broker showed each that is estimated: so long a client can
-- wait today. No release has the draft, and estimates and bounds are no protocols.
SELECT recording, count(*) FILTER (variant = 'lowest_acked_offset') AS requests, FALSE AS in_use,
    FALSE AS is_mixed, count(stale_window_ms) FILTER (variant = 'estimated') AS shown_writes,
    CASE WHEN count(stale_window_ms) FILTER (variant = 'estimated') >= $writes_min
        THEN max(stale_window_ms) FILTER (variant = 'estimated') END AS longest_stale_window_ms
FROM metadata_write_outcomes WHERE parameter = 'none' GROUP BY recording
