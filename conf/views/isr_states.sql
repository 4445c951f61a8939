-- Every ISR that ALTER_PARTITION put in force, with the ISR before it: where replicas fell out or came back.
-- recording: name of the recording
-- topic: topic name, else topic id
-- partition: partition index
-- changed_at: when the controller had responded
-- leader_id: leader
-- leader_epoch: leader epoch
-- replicas_before: size of the ISR in the line before; null for the first
-- replicas: size of the ISR from then on
-- is_shrink: a replica fell out
WITH changes AS (
  SELECT
    recording, topic, partition, built_at AS changed_at, leader_id, leader_epoch, source,
    request_id,
    cardinality(isr) AS replicas,
    lag(cardinality(isr)) OVER (
      PARTITION BY recording, topic, partition ORDER BY built_at NULLS LAST, request_id
    ) AS replicas_before
  FROM isr_changes
  WHERE isr IS NOT NULL AND error_code = 0
)
SELECT
  recording, topic, partition, changed_at, leader_id, leader_epoch,
  replicas_before, replicas, coalesce(replicas < replicas_before, false) AS is_shrink
FROM changes
WHERE source = 'ALTER_PARTITION'
