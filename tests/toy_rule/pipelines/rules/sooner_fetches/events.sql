-- name: events
-- Every FETCH. Raft clients, who fetch the metadata log, do not go by FetchRequest.maxWait.
SELECT f.recording, f.node_id, f.request_id, unix_micros(f.built_at) AS built_us,
    unix_micros(f.dequeued_at) AS dequeued_us, r.client_id
FROM fetches AS f JOIN requests AS r ON r.recording = f.recording AND r.request_id = f.request_id
WHERE f.completed_at > $since_at AND f.received_at <= $until_at
    AND f.is_cluster_metadata IS DISTINCT FROM TRUE
