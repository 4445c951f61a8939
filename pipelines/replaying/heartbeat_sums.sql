-- What heartbeats show, by controller and broker: how many, and least times (UTC microseconds).
SELECT recording, node_id, broker_id, count_if(error_code = 0) AS responded,
    min(unix_micros(received_at)) AS first_us,
    min(unix_micros(built_at)) FILTER (WHERE error_code = 0 AND NOT is_fenced) AS unfenced_us,
    min(unix_micros(received_at)) FILTER (WHERE want_shut_down) AS shut_down_us
FROM broker_heartbeats GROUP BY recording, node_id, broker_id
