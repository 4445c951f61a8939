-- What a change of the protocol does to each node: a row for each figure, as recorded or as replayed.
-- node_id: node
-- node_kind: what the node is to the figure: broker, voter, leader (of partitions) or last_broker (others waited for it)
-- figure: what is measured
-- unit: ms, bytes/s, 1/s or 1 (how many)
-- before: without the change; null: not known
-- after: with it; null: not known, or the change does not touch it
-- count: values behind the figure: of a few it says little
SELECT recording, rule, node_id, node_kind, figure,
  CASE
    WHEN figure LIKE '%_ms' THEN 'ms'
    WHEN figure LIKE '%bytes_per_second' THEN 'bytes/s'
    WHEN figure LIKE '%per_second' THEN '1/s'
    ELSE '1'
  END AS unit,
  before, after, count
FROM each_rule
