-- What the last run of each step has written of a recording, and how long that took.
-- seconds: from its beginning until after its last write; steps may run beside each other
SELECT recording, step, began_at, committed_at,
  (unix_micros(committed_at) - unix_micros(began_at)) / 1e6 AS seconds,
  files_written, rows_written, bytes_written
FROM lineage
