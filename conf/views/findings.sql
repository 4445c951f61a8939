-- What stands out in a recording, by the limits of conf/decisions.toml ([findings]), and what to do about it.
-- rank: 1 is shown first: of each code the largest, then the next ones
-- code: a kind of incidents, lagging_follower, consumer_lag, new_sessions, no_fetch_session, idle_polling, tiny_batches or unused_topics
-- subject: node, partition, group, topic, API, follower or client; of several the first, and how many more
-- detail: cause of an incident, topic of consumer_lag
-- count: how many incidents, partitions, waits, requests, connections, records or bytes it is about
-- population: of how many
-- figure: what reaches the threshold: a share, or how many, or FETCHes a second; bytes of tiny_batches
-- threshold: the limit
-- amount: seconds of the longest of an incident, median ms of the waits, records behind at last, sessions an hour, bytes or batches a second; null of others
-- begin_at: when it begins; null of what is no incident
-- end_at: when it ends; null: none does, or it is no incident
-- incident: its number in incidents, of several the first; what follows from it has it as cause_number
-- action: what to do
-- statement: SQL that shows it
WITH whole AS (
  -- what is missing from a selection of requests did not happen
  SELECT recording, span_s, unix_micros(first_at) AS first_us FROM time_buckets
  WHERE recording NOT IN (
    SELECT recording FROM log_gaps WHERE evidence IN ('deprecated_only', 'sampled', 'no_fetch'))
),
fetching AS (
  SELECT recording, client_id, client_kind, span_s, count(*) AS fetches,
    count(*) FILTER (WHERE record_bytes = 0) AS empty, sum(request_bytes + response_bytes - record_bytes) AS overhead,
    -- a share is that of all, or not known
    CASE WHEN sum(count(*) - count(request_bytes + response_bytes - record_bytes)) OVER (PARTITION BY recording) = 0
      THEN sum(sum(request_bytes + response_bytes - record_bytes)) OVER (PARTITION BY recording) END AS every
  FROM fetch_session_outcomes JOIN whole USING (recording)
  WHERE parameter = 'none' AND variant = 'recorded' GROUP BY recording, client_id, client_kind, span_s
),
-- Fetch sessions that clients open at a broker.
opening AS (
  SELECT recording, node_id, client_id, count(*) AS fetches,
    count(*) FILTER (WHERE session_epoch = 0 AND response_session_id > 0) AS opened
  FROM fetches WHERE NOT is_cluster_metadata AND error_code = 0 GROUP BY recording, node_id, client_id
),
kinds AS (
  SELECT * FROM (VALUES
    ('offline_partitions', 1, 'Give the topics more replicas, or get their broker back.'),
    ('not_enough_replicas', 1, 'Get the replicas back: these writes were refused.'),
    ('below_min_isr', 1, 'Get the replicas back: writes with acks=all are refused.'),
    ('node_died', 2, 'See what it logged last, and start it.'),
    ('node_froze', 2, 'See what it logged then: long pauses, full disks, a stopped machine.'),
    ('node_fenced', 2, 'See what it logged then: lost connections, a failed disk.'),
    ('controller_handover', 2, 'See what the controllers logged then.'),
    ('under_replicated', 2, 'See what the replicas logged then: slow disks, lost connections.'),
    ('failing_requests', 3, 'Look the error up, and whether the clients try again.'),
    ('saturated', 3, 'Move leaders or clients away from it, or give it more threads or disks.'),
    ('throttled', 4, 'Raise the quota, or let it send less.'),
    ('rebalance', 4, 'Static members (group.instance.id) and group.protocol=consumer make fewer wait.'),
    ('connection_storm', 5, 'Let it keep one client open, and its connections.'),
    ('missing_topic', 5, 'Create the topic, or correct its name in the client.'),
    ('node_restarted', 7, ''), ('node_stopped', 7, ''), ('rolling_restart', 7, '')) AS t(kind, place, action)
),
-- Rebalances of a group are one finding, and so is an incident with what followed from it.
happened AS (
  SELECT recording, min(number) AS number, kind, max(is_planned) AS is_planned, max(get(subjects, 0)) AS subject,
    max(size(subjects)) AS subjects, max(cause) AS cause, CASE WHEN kind = 'rebalance' THEN count(*) ELSE max(count) END AS count,
    max(population) AS population, max(worst_s) AS worst_s, min(begin_at) AS begin_at, max(end_at) AS end_at
  FROM incidents WHERE cause_number IS NULL
  GROUP BY recording, kind, CASE WHEN kind = 'rebalance' THEN get(subjects, 0) ELSE CAST(number AS STRING) END
),
grave AS (
  SELECT DISTINCT recording, cause_number FROM incidents
  WHERE kind IN ('offline_partitions', 'not_enough_replicas', 'below_min_isr') AND cause_number IS NOT NULL
),
known AS (
  SELECT h.recording, CASE WHEN g.recording IS NOT NULL THEN CASE WHEN is_planned THEN 1 ELSE 0 END
      WHEN kind = 'node_restarted' AND NOT coalesce(is_planned, false) THEN 2 WHEN kind = 'controller_handover' AND is_planned THEN 7 ELSE place END AS place, kind AS code,
    CASE WHEN subjects > 1 THEN subject || ' and ' || CAST(CASE WHEN subjects < 5 THEN subjects ELSE greatest(count, subjects) END - 1
      AS STRING) || ' more' ELSE subject END AS subject,
    cause AS detail, count, population, CAST(count AS DOUBLE) AS figure, 1 AS threshold, worst_s AS amount, begin_at, end_at, number AS incident,
    'incidents' AS shown, CASE WHEN is_planned AND g.recording IS NOT NULL THEN 'With more replicas, topics go on meanwhile.'
      WHEN kind = 'node_restarted' AND NOT is_planned THEN 'See what it logged before.' ELSE action END AS action
  FROM happened AS h JOIN kinds USING (kind)
    LEFT JOIN grave AS g ON g.recording = h.recording AND g.cause_number = h.number
  UNION ALL SELECT recording, 6, 'lagging_follower', CAST(follower_id AS STRING), NULL, last, waits, last / waits, $lagging_share_min,
    last_ms, NULL, NULL, NULL, 'lagging_followers', 'Look at its disk, its network and num.replica.fetchers.'
  FROM lagging_followers WHERE last >= $count_min AND last_ms >= $lagging_ms_min AND 2 * waited > last
  UNION ALL SELECT recording, 6, 'consumer_lag', client_id, topic, sum(last_lag - first_lag), sum(appended),
    sum(last_lag - first_lag) / nullif(sum(appended), 0), $lag_share_min, sum(last_lag), NULL, NULL, NULL, 'consumer_lag',
    'Add consumers, or find out what they wait for.'
  FROM consumer_lag GROUP BY recording, client_id, topic HAVING sum(last_lag - first_lag) >= $lag_records_min
  UNION ALL SELECT recording, 8, 'new_sessions', client_id, NULL, sum(opened), sum(fetches), sum(opened) / sum(fetches),
    $new_session_share_min, 3600 * max(opened) / max(span_s), NULL, NULL, NULL, 'fetches',
    'Keep the consumer and its assignment from poll to poll, or take a client library that keeps its session.'
  FROM opening JOIN whole USING (recording) WHERE span_s >= 10 GROUP BY recording, client_id HAVING sum(fetches) >= 30
  UNION ALL SELECT recording, 8, 'no_fetch_session', client_id, NULL, overhead, every, overhead / nullif(every, 0),
    $no_session_share_min, overhead / span_s, NULL, NULL, NULL, 'costly_fetchers',
    'Let it fetch fewer partitions, or take a client library that requests sessions (KIP-227).'
  FROM fetching WHERE client_kind = 'consumer_without_sessions' AND span_s >= 10 AND fetches >= 30
    AND overhead / span_s >= $no_session_bytes_per_second_min
  UNION ALL SELECT recording, 9, 'idle_polling', client_id, NULL, empty, fetches, empty / span_s, $idle_per_second_min,
    NULL, NULL, NULL, NULL, 'usage', 'Raise fetch.max.wait.ms and fetch.min.bytes.'
  FROM fetching WHERE client_kind <> 'follower' AND span_s >= 10 AND fetches >= 30
  UNION ALL SELECT recording, 10, 'tiny_batches', client_id, NULL, count(*), count(*), avg(record_bytes), $tiny_bytes_max,
    count(*) / max(span_s), NULL, NULL, NULL, 'usage', 'Raise linger.ms and batch.size.'
  FROM produced_partitions JOIN whole USING (recording) WHERE span_s >= 10
  GROUP BY recording, client_id HAVING count(*) >= 30 AND count(*) / max(span_s) >= $tiny_per_second_min
  UNION ALL SELECT u.recording, 11, 'unused_topics',
    min(topic) || CASE WHEN count(*) > 1 THEN ' and ' || CAST(count(*) - 1 AS STRING) || ' more' ELSE '' END, NULL, count(*), CAST(NULL AS BIGINT),
    CAST(count(*) AS DOUBLE), 1, NULL, NULL, NULL, NULL, 'unused_topics', 'Ask whose they are before you delete them.'
  FROM unused_topics AS u JOIN (
    -- what nobody uses says something where others are used
    SELECT DISTINCT recording FROM produced_partitions) AS p ON p.recording = u.recording
  WHERE NOT is_written AND NOT is_read GROUP BY u.recording
),
placed AS (
  SELECT known.*, coalesce(subject, '(no client id)') AS who,
    row_number() OVER (PARTITION BY recording, code ORDER BY place, count DESC, begin_at NULLS LAST, subject NULLS LAST, detail NULLS LAST) AS of_code
  FROM known JOIN whole USING (recording) WHERE CASE code WHEN 'tiny_batches' THEN figure <= threshold ELSE figure >= threshold END
)
SELECT recording, row_number() OVER (PARTITION BY recording ORDER BY of_code, place, who, detail NULLS LAST, begin_at NULLS LAST) AS rank,
  code, who AS subject, detail, count, population, figure, CAST(threshold AS DOUBLE) AS threshold, amount,
  begin_at, end_at, incident, action, 'SELECT * FROM ' || shown || ' WHERE recording = ' || chr(39)
    || replace(recording, chr(39), chr(39) || chr(39)) || chr(39) AS statement
FROM placed
