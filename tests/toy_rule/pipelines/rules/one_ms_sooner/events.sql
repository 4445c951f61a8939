-- Every FETCH.
SELECT recording, node_id, request_id, unix_micros(built_at) AS built_us,
    unix_micros(dequeued_at) AS dequeued_us
FROM fetches WHERE completed_at > $since_at AND received_at <= $until_at
