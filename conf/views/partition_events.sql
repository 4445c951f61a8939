-- Elections of partition leaders, and replicas that fell out of an ISR or came back, as ALTER_PARTITION and METADATA show them.
-- event_at: when a line first shows it; null: not known
-- kind: partition_leader, isr_shrink or isr_expansion
-- node_id: leader, null: none; replica that fell out or came back
-- subject: topic and partition
-- is_preferred: the leader is the first of its replicas, which Kafka elects by itself (auto.leader.rebalance.enable)
-- what: the event in words
WITH only_ids AS (
  SELECT recording, name AS topic, max(topic_id) AS only_id
  FROM topic_names GROUP BY recording, name
  HAVING count(*) = 1
),
seen AS (
  SELECT recording, coalesce(topic_id, only_id, topic) AS topic_key,
    coalesce(name, topic) || '-' || CAST(partition AS STRING) AS subject,
    built_at, request_id, leader_id, leader_epoch, isr, error_code, get(replicas, 0) AS preferred_id,
    CASE WHEN source = 'ALTER_PARTITION' THEN -1 ELSE node_id END AS witness
  FROM isr_changes
    LEFT JOIN topic_names USING (recording, topic_id)
    LEFT JOIN only_ids USING (recording, topic)
),
partition_epochs AS (
  SELECT recording, subject, min(built_at) AS event_at, max(leader_id) AS node_id,
    max(max(preferred_id)) OVER (PARTITION BY recording, topic_key, subject) AS preferred_id,
    lag(max(leader_id)) OVER (
      PARTITION BY recording, topic_key, subject ORDER BY leader_epoch
    ) AS leader_before
  FROM seen WHERE leader_epoch >= 0 AND leader_id IS NOT NULL
  GROUP BY recording, topic_key, subject, leader_epoch
),
isrs AS (
  SELECT *,
    lag(isr) OVER (
      PARTITION BY recording, topic_key, subject, witness ORDER BY built_at NULLS LAST, request_id
    ) AS isr_of_witness,
    lag(isr) OVER of_any AS isr_of_any,
    lag(built_at) OVER of_any AS any_at
  FROM seen WHERE isr IS NOT NULL AND error_code = 0
  WINDOW of_any AS (
    PARTITION BY recording, topic_key, subject ORDER BY built_at NULLS LAST, request_id
  )
),
-- METADATA of one broker is in order, of several it is not: one may lag behind, though hardly by 2 s.
isr_pairs AS (
  SELECT recording, topic_key, subject, built_at, request_id, isr, isr_of_witness AS isr_before
  FROM isrs
  UNION ALL
  SELECT recording, topic_key, subject, built_at, request_id, isr, isr_of_any
  FROM isrs
  WHERE witness = -1
    OR isr_of_witness IS NULL AND unix_micros(any_at) + 2000000 < unix_micros(built_at)
),
isr_steps AS (
  SELECT recording, topic_key, subject, built_at, request_id, 'isr_shrink' AS kind,
    explode(isr_before) AS node_id, isr AS other
  FROM isr_pairs
  UNION ALL
  SELECT recording, topic_key, subject, built_at, request_id, 'isr_expansion', explode(isr),
    isr_before
  FROM isr_pairs WHERE isr_before IS NOT NULL
),
isr_moves AS (
  SELECT *,
    lag(kind) OVER (
      PARTITION BY recording, topic_key, subject, node_id
      ORDER BY built_at NULLS LAST, request_id, kind
    ) AS kind_before
  FROM isr_steps WHERE NOT array_contains(other, node_id)
)
SELECT recording, event_at, 'partition_leader' AS kind,
  CASE WHEN node_id >= 0 THEN node_id END AS node_id,
  subject,
  CASE WHEN node_id < 0 THEN subject || ' has no leader'
    ELSE CAST(node_id AS STRING) || ' leads ' || subject END AS what,
  coalesce(node_id = preferred_id, false) AS is_preferred
FROM partition_epochs WHERE node_id <> leader_before
UNION ALL
SELECT recording, built_at, kind, node_id, subject,
  CASE kind WHEN 'isr_shrink' THEN 'ISR of ' || subject || ' shrank: without '
    ELSE 'ISR of ' || subject || ' grew: with ' END || CAST(node_id AS STRING), NULL
FROM isr_moves
WHERE kind_before IS NULL OR kind <> kind_before -- else it is seen once more
