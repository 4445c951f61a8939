-- Requests in the logs after $since_at, and of the minutes before, which connections go on from.
SELECT recording, request_id, node_id, connection, client_id, source_file, line_number,
    correlation_id::BIGINT AS correlation_id, received_at, completed_at, api_name, is_forwarded,
    coalesce(regexp_matches(software_name, 'rdkafka|^confluent-kafka'), FALSE) AS is_rdkafka,
    security_protocol LIKE 'SASL%' AS is_sasl,
    coalesce(is_deprecated_version, FALSE) AS is_deprecated,
    api_name IN ('BROKER_HEARTBEAT', 'BROKER_REGISTRATION', 'CONTROLLER_REGISTRATION',
        'ALTER_PARTITION', 'ALLOCATE_PRODUCER_IDS', 'ASSIGN_REPLICAS_TO_DIRS') AS is_to_controller
FROM requests WHERE completed_at > $since_at - INTERVAL 11 MINUTE
