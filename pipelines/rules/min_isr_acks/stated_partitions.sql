-- Partitions whose ISR lines state, and topics (partition null) whose min.insync.replicas they do:
-- since when, UTC microseconds.
SELECT recording, topic, partition, min(unix_micros(least(built_at, dequeued_at))) AS stated_us
FROM isr_changes GROUP BY recording, topic, partition
UNION ALL
SELECT recording, topic, NULL, min(unix_micros(built_at))
FROM stated_configs WHERE topic <> '' GROUP BY recording, topic
