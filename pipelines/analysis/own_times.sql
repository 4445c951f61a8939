-- Requests with own_ms: total_ms less remote_ms where the client wishes to wait, for data or for other
-- members of its group.
SELECT *, total_ms - CASE WHEN api_name IN ('FETCH', 'SHARE_FETCH', 'JOIN_GROUP', 'SYNC_GROUP')
    THEN coalesce(remote_ms, 0) ELSE 0 END AS own_ms
FROM requests
