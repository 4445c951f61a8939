-- broker.rack of each broker, as METADATA has it.
SELECT recording, broker_id, rack, min(unix_micros(built_at)) AS stated_us
FROM brokers WHERE rack IS NOT NULL GROUP BY ALL
