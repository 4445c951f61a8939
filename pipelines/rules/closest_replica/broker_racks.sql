-- broker.rack of each broker, as METADATA and registrations have it.
SELECT DISTINCT recording, broker_id, rack FROM brokers WHERE rack IS NOT NULL
