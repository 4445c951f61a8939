-- Rows of usage, and (with a topic) of topic_usage. What a request has besides records is shared out among
-- its topics, by how many partitions of each it and its response list, with exact remainders.
CREATE TEMP MACRO share(amount, up_to, weight, whole) AS coalesce(
    CAST((amount) * up_to // whole - (amount) * (up_to - weight) // whole AS BIGINT), amount);
CREATE TEMP MACRO known(least, most, of_least, of_most) AS
    CASE WHEN least = most THEN least WHEN of_least = of_most THEN of_least ELSE '-' END;
WITH listed AS (
    SELECT recording, request_id, p.topic AS topic, p.topic_id AS topic_id, CAST(0 AS BIGINT) AS record_bytes
    FROM (SELECT recording, request_id, explode(request_partitions) AS p FROM fetches) AS f
    UNION ALL SELECT recording, request_id, p.topic, p.topic_id, 0
    FROM (SELECT recording, request_id, explode(forgotten_partitions) AS p FROM fetches) AS f
    UNION ALL SELECT recording, request_id, p.topic, p.topic_id, p.record_bytes
    FROM (SELECT recording, request_id, explode(response_partitions) AS p FROM fetches) AS f
    UNION ALL SELECT recording, request_id, p.topic, p.topic_id, p.record_bytes
    FROM (SELECT recording, request_id, explode(partitions) AS p FROM produces) AS f
),
of_topics AS (
    SELECT l.recording, request_id, coalesce(l.topic, name, CASE l.topic_id WHEN 'AAAAAAAAAAAAAAAAAAAAAQ'
            THEN '__cluster_metadata' ELSE l.topic_id END, '-') AS topic, count(*) AS weight,
        CAST(sum(record_bytes) AS BIGINT) AS record_bytes
    FROM listed AS l LEFT JOIN topic_names AS n ON n.recording = l.recording AND n.topic_id = l.topic_id
    GROUP BY ALL
),
weighed AS (
    SELECT *, row_number() OVER up_to AS place, CAST(sum(weight) OVER up_to AS BIGINT) AS up_to,
        CAST(sum(weight) OVER of_request AS BIGINT) AS whole, CAST(sum(record_bytes) OVER of_request AS BIGINT) AS records
    FROM of_topics
    WINDOW of_request AS (PARTITION BY recording, request_id),
        up_to AS (PARTITION BY recording, request_id ORDER BY topic ROWS UNBOUNDED PRECEDING)
),
named AS (
    SELECT recording, request_id, group_id FROM group_requests
    -- Descriptions are of others.
    UNION ALL SELECT recording, request_id, group_id FROM group_assignments WHERE source = 'OFFSET_COMMIT'
),
connections AS (
    SELECT r.recording, r.node_id, r.connection, principal, client_id,
        regexp_extract(r.connection, ':[0-9]+-(.*):[0-9]+(-[0-9]+)+$', 1) AS host,
        max(nullif(software_name, 'unknown') || coalesce(' ' || software_version, '')) AS software,
        min(group_id) AS least_group, max(group_id) AS most_group, min(zone) AS least_zone, max(zone) AS most_zone
    FROM requests AS r LEFT JOIN named AS g ON g.recording = r.recording AND g.request_id = r.request_id
        LEFT JOIN zones AS z ON z.recording = r.recording AND z.request_id = r.request_id
    GROUP BY r.recording, r.node_id, r.connection, principal, client_id
),
senders AS (
    SELECT n.recording, n.node_id, n.connection, principal, client_id, {
            'principal': coalesce(principal, '-'), 'client_id': coalesce(client_id, '-'),
            'software': known(n.software, n.software, min(n.software) OVER alike, max(n.software) OVER alike),
            'group_id': known(least_group, most_group, min(least_group) OVER alike, max(most_group) OVER alike),
            'zone': known(least_zone, most_zone, min(least_zone) OVER alike, max(most_zone) OVER alike),
            'is_client': c.recording IS NOT NULL} AS who
    FROM connections AS n LEFT JOIN client_connections AS c
    ON c.recording = n.recording AND c.node_id = n.node_id AND c.connection = n.connection
    WINDOW alike AS (PARTITION BY n.recording, principal, client_id, host)
),
-- The steady phase, as bandwidth_summary has it.
rated AS (
    SELECT b.recording, b.node_id, max(span_s) AS span_s, max(from_us) AS from_us, max(until_us) AS until_us
    FROM bandwidth_summary AS b JOIN steady_phases AS p ON p.recording = b.recording
    WHERE parameter = 'none' AND span_s > 0 GROUP BY b.recording, b.node_id
),
steady AS (
    SELECT r.recording, r.request_id FROM requests AS r JOIN rated AS p ON p.recording = r.recording
        AND p.node_id = r.node_id AND unix_micros(dequeued_at) >= from_us AND unix_micros(built_at) >= from_us
        AND unix_micros(dequeued_at) < until_us AND unix_micros(built_at) < until_us
    ANTI JOIN log_gaps AS g ON g.recording = r.recording AND g.node_id = r.node_id
        AND dequeued_at > coalesce(after_at, timestamp_micros(0)) AND dequeued_at < coalesce(before_at, timestamp_micros(9000000000000000))
),
parts AS (
    SELECT s.recording, s.request_id, k.who, s.node_id, s.api_name, coalesce(w.topic, '-') AS topic, coalesce(place, 1) AS place,
        e.recording IS NOT NULL AS is_steady, w.record_bytes, row_number() OVER (
            PARTITION BY s.recording, s.node_id, s.connection ORDER BY received_at, s.request_id, w.topic) AS on_connection,
        share(s.request_bytes - CASE WHEN s.api_name = 'PRODUCE' THEN coalesce(records, 0) ELSE 0 END, up_to, weight, whole)
            + CASE WHEN s.api_name = 'PRODUCE' THEN coalesce(w.record_bytes, 0) ELSE 0 END AS request_bytes,
        share(s.response_bytes - CASE WHEN s.api_name = 'FETCH' THEN coalesce(records, 0) ELSE 0 END, up_to, weight, whole)
            + CASE WHEN s.api_name = 'FETCH' THEN coalesce(w.record_bytes, 0) ELSE 0 END AS response_bytes,
        share(unix_micros(handled_at) - unix_micros(dequeued_at), up_to, weight, whole) AS handler_us,
        share(CAST(floor(throttle_ms * 1e3 + 5e-1) AS BIGINT), up_to, weight, whole) AS throttle_us
    FROM requests AS s JOIN senders AS k ON k.recording = s.recording AND k.node_id = s.node_id
        AND k.connection = s.connection AND k.principal IS NOT DISTINCT FROM s.principal
        AND k.client_id IS NOT DISTINCT FROM s.client_id
    LEFT JOIN steady AS e ON e.recording = s.recording AND e.request_id = s.request_id
    LEFT JOIN weighed AS w ON w.recording = s.recording AND w.request_id = s.request_id
),
failed AS (
    SELECT DISTINCT e.recording, request_id, coalesce(name, subject) AS subject,
        coalesce(error_name, CAST(e.error_code AS STRING)) AS error
    FROM stated_errors AS e LEFT JOIN topic_names AS n ON n.recording = e.recording AND topic_id = subject
    LEFT JOIN error_names AS k ON k.error_code = e.error_code
),
-- An error of the whole request is one of each of its topics.
failures AS (
    SELECT *, row_number() OVER (PARTITION BY recording, request_id, error ORDER BY topic) AS place
    FROM (SELECT DISTINCT p.recording, p.request_id, who, node_id, api_name, topic, error
        FROM parts AS p JOIN failed AS f ON f.recording = p.recording AND f.request_id = p.request_id
        WHERE subject IS NULL OR topic = subject OR topic = '-') AS each
),
summed AS (
    SELECT p.recording, who, p.node_id, api_name, topic, CAST(NULL AS STRING) AS error,
        count(*) AS listing, count(*) FILTER (WHERE place = 1) AS requests, sum(request_bytes) AS request_bytes,
        sum(response_bytes) AS response_bytes, sum(record_bytes) AS record_bytes, sum(handler_us) AS handler_us,
        sum(throttle_us) AS throttle_us, count(*) FILTER (WHERE on_connection = 1) AS connections,
        count(*) FILTER (WHERE place = 1 AND o.request_id IS NOT NULL) AS fetch_sessions,
        CASE WHEN max(who.zone) <> '-' AND max(rack) IS NOT NULL
            THEN coalesce(sum(CASE WHEN is_steady AND who.zone <> rack THEN record_bytes END), 0) END AS cross_zone_bytes
    FROM parts AS p LEFT JOIN (SELECT recording, broker_id, min(rack) AS rack FROM brokers GROUP BY recording, broker_id) AS k
    ON k.recording = p.recording AND k.broker_id = p.node_id
    LEFT JOIN (SELECT recording, request_id FROM fetches WHERE NOT is_cluster_metadata AND error_code = 0
        AND session_epoch = 0 AND response_session_id > 0) AS o ON o.recording = p.recording AND o.request_id = p.request_id
    GROUP BY p.recording, who, p.node_id, api_name, topic
    UNION ALL BY NAME
    SELECT recording, who, node_id, api_name, topic, error, count(*) AS listing,
        count(*) FILTER (WHERE place = 1) AS requests
    FROM failures GROUP BY recording, who, node_id, api_name, topic, error
),
-- Each once for usage, and once for its topic.
of_both AS (
    SELECT recording, who, node_id, api_name, shown AS topic, error,
        sum(CASE WHEN shown IS NULL THEN requests ELSE listing END) AS requests, sum(request_bytes) AS request_bytes,
        sum(response_bytes) AS response_bytes, sum(record_bytes) AS record_bytes, sum(handler_us) AS handler_us,
        sum(throttle_us) AS throttle_us, sum(connections) AS connections, sum(fetch_sessions) AS fetch_sessions,
        sum(cross_zone_bytes) AS cross_zone_bytes
    FROM (SELECT *, explode([NULL, topic]) AS shown FROM summed) AS each
    GROUP BY recording, who, node_id, api_name, shown, error
),
beside AS (
    SELECT recording, who, node_id, api_name, topic, sum(requests) FILTER (WHERE error IS NULL) AS requests,
        sum(request_bytes) AS request_bytes, sum(response_bytes) AS response_bytes,
        coalesce(sum(record_bytes), 0) AS record_bytes, sum(handler_us) / 1e3 AS handler_ms,
        sum(throttle_us) / 1e3 AS throttle_ms, sum(connections) AS connections, sum(fetch_sessions) AS fetch_sessions,
        coalesce(sum(requests) FILTER (WHERE error IS NOT NULL), 0) AS errors,
        CASE WHEN max(error) IS NOT NULL THEN sort_array(collect_list(CASE WHEN error IS NOT NULL
            THEN {'error': error, 'requests': CAST(requests AS BIGINT)} END)) END AS errors_by_name,
        sum(cross_zone_bytes) AS cross_zone_bytes
    FROM of_both GROUP BY recording, who, node_id, api_name, topic
)
SELECT b.*, who.principal, who.client_id, who.software, who.group_id, who.zone, who.is_client,
    cross_zone_bytes / span_s * 2.592e-3 * dollars_per_gb AS cross_zone_dollars,
    CASE WHEN cross_zone_bytes IS NOT NULL THEN timestamp_micros(from_us) END AS cross_zone_from_at,
    CASE WHEN cross_zone_bytes IS NOT NULL THEN timestamp_micros(until_us) END AS cross_zone_until_at
FROM beside AS b LEFT JOIN rated AS r ON r.recording = b.recording AND r.node_id = b.node_id
LEFT JOIN (SELECT recording, max(dollars_per_gb) AS dollars_per_gb FROM zones GROUP BY recording) AS d ON d.recording = b.recording
