-- What stands out in a recording, by the limits of conf/decisions.toml ([findings]), and what to do about it.
-- rank: 1 is shown first: of each code the largest, then the next ones
-- code: lagging_follower, failing_client, broker_froze, broker_died, broker_fenced, leader_moved, consumer_lag, new_sessions, no_fetch_session, idle_polling or tiny_batches
-- subject: follower, client, broker, or what got another leader
-- detail: API and error of failing_client, topic of consumer_lag
-- count: how many waits, requests, events, records or bytes it is about
-- population: of how many
-- figure: what reaches the threshold: a share, or how many, or FETCHes a second; bytes of tiny_batches
-- threshold: the limit
-- amount: median ms of the waits, seconds without a line, records behind at last, sessions an hour, bytes or batches a second; null of others
-- begin_at: the last line of a broker before it was fenced, or the first change of a leader; null of others
-- event_at: when the broker was fenced; null of others
-- end_at: its first line after that, or the last change of a leader; null of others
-- action: what to do
-- statement: SQL that shows it
WITH whole AS (
  -- what is missing from a selection of requests did not happen
  SELECT recording, span_s, unix_micros(first_at) AS first_us FROM time_buckets
  WHERE recording NOT IN (
    SELECT recording FROM log_gaps WHERE evidence IN ('deprecated_only', 'sampled', 'no_fetch'))
),
failing AS (
  -- METADATA without a topic is no failure: clients request it until a new one shows
  SELECT recording, api_name || ': ' || coalesce(error_name, CAST(error_code AS STRING)) AS detail,
    coalesce(client_id, '(no client id)') AS client_id, sum(requests) AS failed, max(of_requests) AS sent
  FROM request_errors WHERE is_client AND api_name <> 'METADATA' GROUP BY recording, api_name, error_name, error_code, client_id
  HAVING sum(requests) >= $count_min AND sum(requests) / max(of_requests) >= $failing_share_min
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
-- A broker that has just started is fenced until it has caught up.
fenced AS (
  SELECT recording, node_id, event_at
  FROM (SELECT *, lag(kind) OVER (PARTITION BY recording, node_id ORDER BY event_at, kind DESC) AS kind_before FROM broker_events) AS e
  WHERE kind = 'broker_fenced' AND coalesce(kind_before, '') <> 'broker_started'
),
-- When changes are planned, as a broker shuts down or a controller resigns, or might be: lines of
-- controllers are missing. Leaders of partitions also move from a broker that is fenced.
planned AS (
  SELECT recording, CAST(NULL AS STRING) AS of_code, unix_micros(event_at) AS from_us, unix_micros(event_at) + 300000000 AS until_us
  FROM broker_events WHERE kind = 'controlled_shutdown'
  UNION ALL SELECT recording, NULL, unix_micros(completed_at), unix_micros(completed_at) + 60000000
  FROM requests WHERE api_name = 'END_QUORUM_EPOCH'
  UNION ALL SELECT g.recording, NULL, coalesce(unix_micros(after_at), 0),
    coalesce(unix_micros(before_at) + 300000000, 9000000000000000000)
  FROM log_gaps AS g
    LEFT JOIN (SELECT DISTINCT recording, broker_id FROM broker_heartbeats) AS b
      ON b.recording = g.recording AND b.broker_id = g.node_id
    LEFT JOIN (SELECT DISTINCT recording, node_id FROM broker_heartbeats) AS c
      ON c.recording = g.recording AND c.node_id = g.node_id
  WHERE b.broker_id IS NULL OR c.node_id IS NOT NULL
  UNION ALL SELECT recording, 'partitions', unix_micros(event_at) - 2000000, unix_micros(event_at) + 60000000 FROM fenced
),
moves AS (
  SELECT recording, 'the metadata log' AS code, node_id, event_at, '' AS subject, false AS is_preferred
  FROM cluster_events WHERE kind = 'metadata_leader'
  UNION ALL SELECT recording, 'broker', node_id, event_at, '', false FROM fenced
  UNION ALL SELECT recording, 'partitions', node_id, event_at, subject, is_preferred
  FROM partition_events WHERE kind = 'partition_leader'
),
-- In a log's first 10 s the cluster may start.
changes AS (
  SELECT e.recording, e.code, e.node_id, e.event_at, e.subject,
    bool_or(is_preferred OR unix_micros(event_at) < first_us + 10000000 OR p.recording IS NOT NULL) AS is_planned
  FROM moves AS e JOIN whole AS w ON w.recording = e.recording
    LEFT JOIN planned AS p ON p.recording = e.recording AND coalesce(of_code, code) = code
      AND unix_micros(event_at) BETWEEN from_us AND until_us
  WHERE event_at IS NOT NULL GROUP BY e.recording, e.code, e.node_id, e.event_at, e.subject
),
-- A broker's own lines around the moment at which it was fenced.
silences AS (
  SELECT c.recording, c.node_id, event_at, max(completed_at) FILTER (WHERE completed_at <= event_at) AS begin_at,
    min(received_at) FILTER (WHERE received_at > event_at) AS end_at
  FROM changes AS c LEFT JOIN requests AS r ON r.recording = c.recording AND r.node_id = c.node_id
  WHERE code = 'broker' AND NOT is_planned GROUP BY c.recording, c.node_id, event_at
),
lost AS (
  SELECT s.recording, s.node_id, s.event_at, s.begin_at, s.end_at, CASE
    WHEN s.begin_at IS NULL OR unix_micros(s.end_at) < unix_micros(s.begin_at) + 5000000 OR count(g.recording) > 0 THEN 'broker_fenced'
    WHEN s.end_at IS NULL OR count(b.recording) > 0 THEN 'broker_died'
    ELSE 'broker_froze' END AS code
  FROM silences AS s
    LEFT JOIN log_gaps AS g ON g.recording = s.recording AND g.node_id = s.node_id
      AND coalesce(g.after_at <= s.event_at, true) AND coalesce(g.before_at >= s.event_at, true)
    LEFT JOIN broker_events AS b ON b.recording = s.recording AND b.node_id = s.node_id
      AND b.kind = 'broker_started' AND b.event_at BETWEEN s.event_at AND s.end_at
  GROUP BY s.recording, s.node_id, s.event_at, s.begin_at, s.end_at
),
known AS (
  SELECT recording, 1 AS place, 'lagging_follower' AS code, CAST(follower_id AS STRING) AS subject,
    CAST(NULL AS STRING) AS detail, last AS count, waits AS population, last / waits AS figure,
    $lagging_share_min AS threshold, last_ms AS amount, CAST(NULL AS TIMESTAMP) AS begin_at, CAST(NULL AS TIMESTAMP) AS event_at,
    CAST(NULL AS TIMESTAMP) AS end_at, 'lagging_followers' AS shown, 'Look at its disk, its network and num.replica.fetchers.' AS action
  FROM lagging_followers WHERE last >= $count_min AND last_ms >= $lagging_ms_min AND 2 * waited > last
  UNION ALL SELECT recording, 2, 'failing_client', CASE count(*) WHEN 1 THEN max(client_id)
      ELSE max_by(client_id, (failed, client_id)) || ' and ' || CAST(count(*) - 1 AS STRING) || ' more' END,
    detail, sum(failed), sum(sent), sum(failed) / sum(sent), $failing_share_min, NULL, NULL, NULL, NULL, 'request_errors',
    'Look the error up, and whether the clients try again.'
  FROM failing GROUP BY recording, detail
  UNION ALL SELECT recording, 3, code, CAST(node_id AS STRING), NULL, 1, 1, 1, 1,
    (unix_micros(end_at) - unix_micros(begin_at)) / 1e6, begin_at, event_at, end_at, 'broker_events',
    'See what it logged then: long pauses, full disks, lost connections.'
  FROM lost
  UNION ALL SELECT recording, 4, 'leader_moved', code, NULL, count(*) FILTER (WHERE NOT is_planned), count(*),
    count(*) FILTER (WHERE NOT is_planned), 1, NULL, min(event_at) FILTER (WHERE NOT is_planned), NULL,
    max(event_at) FILTER (WHERE NOT is_planned), 'cluster_events',
    'See what nodes logged then: long pauses, full disks, lost connections.'
  FROM changes WHERE code <> 'broker' GROUP BY recording, code
  UNION ALL SELECT recording, 5, 'consumer_lag', client_id, topic, sum(last_lag - first_lag), sum(appended),
    sum(last_lag - first_lag) / nullif(sum(appended), 0), $lag_share_min, sum(last_lag), NULL, NULL, NULL, 'consumer_lag',
    'Add consumers, or find out what they wait for.'
  FROM consumer_lag GROUP BY recording, client_id, topic HAVING sum(last_lag - first_lag) >= $lag_records_min
  UNION ALL SELECT recording, 6, 'new_sessions', client_id, NULL, sum(opened), sum(fetches), sum(opened) / sum(fetches),
    $new_session_share_min, 3600 * max(opened) / max(span_s), NULL, NULL, NULL, 'fetches',
    'Keep the consumer and its assignment from poll to poll, or take a client library that keeps its session.'
  FROM opening JOIN whole USING (recording) WHERE span_s >= 10 GROUP BY recording, client_id HAVING sum(fetches) >= 30
  UNION ALL SELECT recording, 7, 'no_fetch_session', client_id, NULL, overhead, every, overhead / nullif(every, 0),
    $no_session_share_min, overhead / span_s, NULL, NULL, NULL, 'costly_fetchers',
    'Let it fetch fewer partitions, or take a client library that requests sessions (KIP-227).'
  FROM fetching WHERE client_kind = 'consumer_without_sessions' AND span_s >= 10 AND fetches >= 30
    AND overhead / span_s >= $no_session_bytes_per_second_min
  UNION ALL SELECT recording, 8, 'idle_polling', client_id, NULL, empty, fetches, empty / span_s, $idle_per_second_min,
    NULL, NULL, NULL, NULL, 'client_traffic', 'Raise fetch.max.wait.ms and fetch.min.bytes.'
  FROM fetching WHERE client_kind <> 'follower' AND span_s >= 10 AND fetches >= 30
  UNION ALL SELECT recording, 9, 'tiny_batches', client_id, NULL, count(*), count(*), avg(record_bytes), $tiny_bytes_max,
    count(*) / max(span_s), NULL, NULL, NULL, 'client_traffic', 'Raise linger.ms and batch.size.'
  FROM produced_partitions JOIN whole USING (recording) WHERE span_s >= 10
  GROUP BY recording, client_id HAVING count(*) >= 30 AND count(*) / max(span_s) >= $tiny_per_second_min
),
placed AS (
  SELECT known.*, coalesce(subject, '(no client id)') AS who,
    row_number() OVER (PARTITION BY recording, code ORDER BY count DESC, event_at NULLS LAST, subject NULLS LAST, detail NULLS LAST) AS of_code
  FROM known JOIN whole USING (recording) WHERE CASE code WHEN 'tiny_batches' THEN figure <= threshold ELSE figure >= threshold END
)
SELECT recording, row_number() OVER (PARTITION BY recording ORDER BY of_code, place, who, detail NULLS LAST, event_at NULLS LAST) AS rank,
  code, who AS subject, detail, count, population, figure, CAST(threshold AS DOUBLE) AS threshold, amount,
  begin_at, event_at, end_at, action, 'SELECT * FROM ' || shown || ' WHERE recording = ' || chr(39)
    || replace(recording, chr(39), chr(39) || chr(39)) || chr(39) AS statement
FROM placed
