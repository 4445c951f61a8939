-- What stands out in a recording, by the limits of conf/decisions.toml ([findings]), and what to do about it.
-- rank: 1 is shown first: of each code the largest, then the next ones
-- code: lagging_follower, failing_client, broker_fenced, leader_moved, consumer_lag, no_fetch_session, idle_polling or tiny_batches
-- subject: follower, client, broker, or what got another leader
-- detail: API and error of failing_client, topic of consumer_lag
-- count: how many waits, requests, events, records or bytes it is about
-- population: of how many
-- figure: what reaches the threshold: a share, or how many, or FETCHes a second; bytes of tiny_batches
-- threshold: the limit
-- amount: median ms of the waits, records behind at last, bytes or batches a second; null of others
-- action: what to do
-- statement: SQL that shows it
WITH failing AS (
  -- METADATA without a topic is no failure: clients request it until a new one shows
  SELECT recording, api_name || ': ' || coalesce(error_name, CAST(error_code AS STRING)) AS detail,
    coalesce(client_id, '(no client id)') AS client_id, sum(requests) AS failed, max(of_requests) AS sent
  FROM request_errors WHERE is_client AND api_name <> 'METADATA' GROUP BY recording, api_name, error_name, error_code, client_id
  HAVING sum(requests) >= $count_min AND sum(requests) / max(of_requests) >= $failing_share_min
),
fetching AS (
  SELECT recording, client_id, client_kind, span_s, count(*) AS fetches,
    count(*) FILTER (WHERE coalesce(record_bytes, 0) = 0) AS empty,
    sum(request_bytes + response_bytes - coalesce(record_bytes, 0)) AS overhead,
    sum(sum(request_bytes + response_bytes - coalesce(record_bytes, 0))) OVER (PARTITION BY recording) AS every
  FROM fetch_session_outcomes JOIN time_buckets USING (recording)
  WHERE parameter = 'none' AND variant = 'recorded' AND span_s > 0 GROUP BY recording, client_id, client_kind, span_s
),
-- unplanned: no broker shut down in the 5 minutes before, and not in a log's first 10 s, as a cluster may start there
events AS (
  SELECT recording, kind, CASE kind WHEN 'broker_fenced' THEN 'broker ' || CAST(node_id AS STRING)
      WHEN 'metadata_leader' THEN 'the metadata log' ELSE 'partitions' END AS concerned,
    unix_micros(event_at) - greatest(unix_micros(first_at) - 29e7, coalesce(max(CASE kind
      WHEN 'controlled_shutdown' THEN unix_micros(event_at) END) OVER (PARTITION BY recording
      ORDER BY unix_micros(event_at) NULLS FIRST), 0)) >= 3e8 AS is_unplanned
  FROM cluster_events JOIN time_buckets USING (recording)
),
known AS (
  SELECT recording, 1 AS place, 'lagging_follower' AS code, CAST(follower_id AS STRING) AS subject,
    CAST(NULL AS STRING) AS detail, last AS count, waits AS population, last / waits AS figure,
    $lagging_share_min AS threshold, last_ms AS amount, 'lagging_followers' AS shown,
    'Look at its disk, its network and num.replica.fetchers.' AS action
  FROM lagging_followers WHERE last >= $count_min AND last_ms >= $lagging_ms_min
  UNION ALL SELECT recording, 2, 'failing_client', CASE count(*) WHEN 1 THEN max(client_id)
      ELSE max_by(client_id, (failed, client_id)) || ' and ' || CAST(count(*) - 1 AS STRING) || ' more' END,
    detail, sum(failed), sum(sent), sum(failed) / sum(sent), $failing_share_min, NULL, 'request_errors',
    'Look the error up, and whether the clients try again.'
  FROM failing GROUP BY recording, detail
  UNION ALL SELECT recording, CASE kind WHEN 'broker_fenced' THEN 3 ELSE 4 END,
    CASE kind WHEN 'broker_fenced' THEN kind ELSE 'leader_moved' END, concerned, NULL,
    count(*) FILTER (WHERE is_unplanned), count(*), count(*) FILTER (WHERE is_unplanned), $events_min, NULL,
    'cluster_events', 'See what nodes logged then: long pauses, full disks, lost connections.'
  FROM events WHERE kind IN ('broker_fenced', 'metadata_leader', 'partition_leader') GROUP BY recording, kind, concerned
  UNION ALL SELECT recording, 5, 'consumer_lag', client_id, topic, sum(last_lag - first_lag), sum(appended),
    sum(last_lag - first_lag) / nullif(sum(appended), 0), $lag_share_min, sum(last_lag), 'consumer_lag',
    'Add consumers, or find out what they wait for.'
  FROM consumer_lag GROUP BY recording, client_id, topic HAVING sum(last_lag - first_lag) >= $lag_records_min
  UNION ALL SELECT recording, 6, 'no_fetch_session', client_id, NULL, overhead, every, overhead / nullif(every, 0),
    $no_session_share_min, overhead / span_s, 'costly_fetchers',
    'Let it fetch fewer partitions, or take a client library that requests sessions (KIP-227).'
  FROM fetching WHERE client_kind = 'consumer_without_sessions' AND overhead / span_s >= $no_session_bytes_per_second_min
  UNION ALL SELECT recording, 7, 'idle_polling', client_id, NULL, empty, fetches, empty / span_s, $idle_per_second_min,
    NULL, 'client_traffic', 'Raise fetch.max.wait.ms and fetch.min.bytes.'
  FROM fetching WHERE client_kind <> 'follower'
  UNION ALL SELECT recording, 8, 'tiny_batches', client_id, NULL, count(*), count(*), avg(record_bytes), $tiny_bytes_max,
    count(*) / max(span_s), 'client_traffic', 'Raise linger.ms and batch.size.'
  FROM produced_partitions JOIN time_buckets USING (recording) WHERE span_s > 0
  GROUP BY recording, client_id HAVING count(*) / max(span_s) >= $tiny_per_second_min
),
placed AS (
  SELECT *, coalesce(subject, '(no client id)') AS who,
    row_number() OVER (PARTITION BY recording, code ORDER BY count DESC, subject NULLS LAST, detail NULLS LAST) AS of_code
  FROM known WHERE CASE code WHEN 'tiny_batches' THEN figure <= threshold ELSE figure >= threshold END
)
SELECT recording, row_number() OVER (PARTITION BY recording ORDER BY of_code, place, who, detail NULLS LAST) AS rank,
  code, who AS subject, detail, count, population, figure, CAST(threshold AS DOUBLE) AS threshold, amount, action,
  'SELECT * FROM ' || shown || ' WHERE recording = ' || chr(39)
    || replace(recording, chr(39), chr(39) || chr(39)) || chr(39) AS statement
FROM placed
