-- Partitions whose ISR lines state, and topics (partition null) whose min.insync.replicas they do:
-- since when, UTC microseconds.
SELECT recording, topic, partition, min(unix_micros(least(built_at, dequeued_at))) AS stated_us
FROM isr_changes GROUP BY recording, topic, partition
UNION ALL
SELECT recording, resource_name, NULL, min(unix_micros(built_at))
FROM configs WHERE name = $min_insync_replicas AND resource_type = 'topic'
GROUP BY recording, resource_name
