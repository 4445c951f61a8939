-- Who reads what whom writes: each topic that clients write or read, that brokers replicate, or that is unused.
-- written_bytes: bytes of records in PRODUCEs
-- read_bytes: likewise in FETCH responses to clients
-- replicated_bytes: likewise to brokers
-- writers: client ids of PRODUCEs; null: none
-- readers: client ids of clients' FETCHes; null: none
-- is_written: a client sent a PRODUCE for it; null: not known, as in unused_topics, or internal
-- is_read: a client reads it; null: likewise
WITH sums AS (
  SELECT recording, topic, client_id, sum(record_bytes) AS bytes,
    CASE WHEN api_name = 'PRODUCE' THEN 'write' WHEN is_client THEN 'read' ELSE 'replicate' END AS way
  FROM topic_usage WHERE topic NOT IN ('-', '__cluster_metadata')
  GROUP BY recording, topic, client_id, CASE WHEN api_name = 'PRODUCE' THEN 'write' WHEN is_client THEN 'read' ELSE 'replicate' END
),
flows AS (
  SELECT recording, topic, sum(CASE way WHEN 'write' THEN bytes ELSE 0 END) AS written_bytes,
    sum(CASE way WHEN 'read' THEN bytes ELSE 0 END) AS read_bytes,
    sum(CASE way WHEN 'replicate' THEN bytes ELSE 0 END) AS replicated_bytes,
    sort_array(collect_list(CASE way WHEN 'write' THEN client_id END)) AS writers,
    sort_array(collect_list(CASE way WHEN 'read' THEN client_id END)) AS readers,
    max(CASE way WHEN 'write' THEN true END) AS has_writers, max(CASE way WHEN 'read' THEN true END) AS has_readers
  FROM sums GROUP BY recording, topic
)
SELECT coalesce(f.recording, u.recording) AS recording, coalesce(f.topic, u.topic) AS topic, written_bytes, read_bytes,
  replicated_bytes, CASE WHEN has_writers THEN writers END AS writers, CASE WHEN has_readers THEN readers END AS readers,
  coalesce(has_writers, is_written) AS is_written, coalesce(has_readers, is_read) AS is_read
FROM flows AS f FULL JOIN unused_topics AS u ON u.recording = f.recording AND u.topic = f.topic
