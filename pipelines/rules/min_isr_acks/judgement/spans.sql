-- Producers go on while brokers come and go: figures are of the whole log.
SELECT recording, (max(unix_micros(received_at)) - min(unix_micros(received_at))) / 1e6 AS span_s
FROM produce_ack_outcomes GROUP BY recording
