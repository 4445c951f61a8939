-- Rows of usage, and (with a topic) of topic_usage. What a request has besides records is shared out among
-- the topics that it lists, or that its response returns, by their partitions, with exact remainders.
CREATE TEMP MACRO share(amount, up_to, weight, whole) AS
    CAST((amount) * up_to // whole - (amount) * (up_to - weight) // whole AS BIGINT);
CREATE TEMP MACRO only_one(least, most) AS CASE WHEN least = most THEN least END;
WITH listed AS (
    SELECT recording, request_id, is_cluster_metadata, p.topic AS topic, p.topic_id AS topic_id,
        1 AS sent, 0 AS returned, CAST(0 AS BIGINT) AS record_bytes
    FROM (SELECT recording, request_id, is_cluster_metadata, explode(request_partitions) AS p FROM fetches) AS f
    UNION ALL SELECT recording, request_id, is_cluster_metadata, p.topic, p.topic_id, 1, 0, 0
    FROM (SELECT recording, request_id, is_cluster_metadata, explode(forgotten_partitions) AS p FROM fetches) AS f
    UNION ALL SELECT recording, request_id, is_cluster_metadata, p.topic, p.topic_id, 0, 1, p.record_bytes
    FROM (SELECT recording, request_id, is_cluster_metadata, explode(response_partitions) AS p FROM fetches) AS f
    UNION ALL SELECT recording, request_id, false, p.topic, p.topic_id, 1, 1, p.record_bytes
    FROM (SELECT recording, request_id, explode(partitions) AS p FROM produces) AS f
),
of_topics AS (
    SELECT l.recording, request_id, CASE WHEN is_cluster_metadata THEN '__cluster_metadata'
            ELSE coalesce(l.topic, name, l.topic_id, '-') END AS topic,
        sum(sent) AS sent, sum(returned) AS returned, sum(record_bytes) AS record_bytes
    FROM listed AS l LEFT JOIN topic_names AS n ON n.recording = l.recording AND n.topic_id = l.topic_id
    GROUP BY ALL
),
-- Up to each topic, in the order of their names: what is shared out after it is another's.
places AS (
    SELECT recording, request_id, topic, CAST(record_bytes AS BIGINT) AS record_bytes,
        CAST(sum(record_bytes) OVER of_request AS BIGINT) AS all_records, CAST(sent AS BIGINT) AS sent,
        CAST(returned AS BIGINT) AS returned, CAST(sum(sent) OVER of_request AS BIGINT) AS all_sent,
        CAST(sum(returned) OVER of_request AS BIGINT) AS all_returned,
        CAST(sum(sent) OVER up_to AS BIGINT) AS sent_up_to,
        CAST(sum(returned) OVER up_to AS BIGINT) AS returned_up_to,
        row_number() OVER up_to AS place
    FROM of_topics
    WINDOW of_request AS (PARTITION BY recording, request_id),
        up_to AS (PARTITION BY recording, request_id ORDER BY topic ROWS UNBOUNDED PRECEDING)
),
-- Where one way lists no topic, those of the other are taken.
weighed AS (
    SELECT recording, request_id, topic, record_bytes, all_records, place,
        CASE WHEN all_sent > 0 THEN sent ELSE returned END AS sent,
        CASE WHEN all_sent > 0 THEN all_sent ELSE all_returned END AS all_sent,
        CASE WHEN all_sent > 0 THEN sent_up_to ELSE returned_up_to END AS sent_up_to,
        CASE WHEN all_returned > 0 THEN returned ELSE sent END AS returned,
        CASE WHEN all_returned > 0 THEN all_returned ELSE all_sent END AS all_returned,
        CASE WHEN all_returned > 0 THEN returned_up_to ELSE sent_up_to END AS returned_up_to
    FROM places
),
named AS (
    SELECT recording, request_id, min(group_id) AS group_id FROM (
        SELECT recording, request_id, group_id FROM group_requests
        -- Descriptions are of others.
        UNION ALL SELECT recording, request_id, group_id FROM group_assignments WHERE source = 'OFFSET_COMMIT') AS each
    GROUP BY recording, request_id
),
placed AS (
    SELECT recording, request_id, min(zone) AS zone, max(dollars_per_gb) AS dollars_per_gb
    FROM zones GROUP BY recording, request_id
),
connections AS (
    SELECT r.recording, r.node_id, r.connection, coalesce(principal, '-') AS principal, coalesce(client_id, '-') AS client_id,
        regexp_extract(r.connection, ':[0-9]+-(.*):[0-9]+(-[0-9]+)+$', 1) AS host,
        max(nullif(software_name, 'unknown') || coalesce(' ' || software_version, '')) AS software,
        min(group_id) AS least_group, max(group_id) AS most_group, min(zone) AS least_zone, max(zone) AS most_zone
    FROM requests AS r LEFT JOIN named AS g ON g.recording = r.recording AND g.request_id = r.request_id
        LEFT JOIN placed AS z ON z.recording = r.recording AND z.request_id = r.request_id
    GROUP BY r.recording, r.node_id, r.connection, coalesce(principal, '-'), coalesce(client_id, '-')
),
senders AS (
    SELECT n.recording, n.node_id, n.connection, principal, client_id, coalesce(n.software, only_one(min(n.software) OVER alike, max(n.software) OVER alike), '-') AS software,
        coalesce(only_one(least_group, most_group), only_one(min(least_group) OVER alike, max(most_group) OVER alike), '-') AS group_id,
        coalesce(only_one(least_zone, most_zone), only_one(min(least_zone) OVER alike, max(most_zone) OVER alike), '-') AS zone,
        c.recording IS NOT NULL AS is_client
    FROM connections AS n LEFT JOIN client_connections AS c
    ON c.recording = n.recording AND c.node_id = n.node_id AND c.connection = n.connection
    WINDOW alike AS (PARTITION BY n.recording, principal, client_id, host)
),
racks AS (SELECT recording, broker_id, min(rack) AS rack FROM brokers GROUP BY recording, broker_id),
rated AS (
    SELECT b.recording, b.node_id, max(span_s) AS span_s, max(from_us) AS from_us, max(until_us) AS until_us
    FROM bandwidth_summary AS b JOIN steady_phases AS p ON p.recording = b.recording
    WHERE parameter = 'none' AND span_s > 0 GROUP BY b.recording, b.node_id
),
gaps AS (
    SELECT recording, node_id, coalesce(unix_micros(after_at), 0) AS after_us,
        coalesce(unix_micros(before_at), 9000000000000000) AS before_us
    FROM log_gaps
),
steady AS (
    SELECT r.recording, r.request_id
    FROM requests AS r JOIN rated AS p ON p.recording = r.recording AND p.node_id = r.node_id
        AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
        AND unix_micros(built_at) >= from_us AND unix_micros(built_at) < until_us
    ANTI JOIN gaps AS g ON g.recording = r.recording AND g.node_id = r.node_id
        AND unix_micros(dequeued_at) > after_us AND unix_micros(dequeued_at) < before_us
),
sent AS (
    SELECT r.*, s.recording IS NOT NULL AS is_steady,
        unix_micros(handled_at) - unix_micros(dequeued_at) AS handler_us,
        CAST(floor(throttle_ms * 1e3 + 5e-1) AS BIGINT) AS throttle_us,
        row_number() OVER (PARTITION BY r.recording, r.node_id, connection ORDER BY received_at, r.request_id) AS on_connection
    FROM requests AS r LEFT JOIN steady AS s ON s.recording = r.recording AND s.request_id = r.request_id
),
parts AS (
    SELECT s.recording, s.request_id, k.principal, k.client_id, k.software, k.group_id, k.zone, k.is_client, s.node_id, s.api_name,
        coalesce(w.topic, '-') AS topic, coalesce(place, 1) AS place, on_connection, is_steady, w.record_bytes,
        CASE WHEN all_sent > 0 THEN share(s.request_bytes - CASE WHEN s.api_name = 'PRODUCE' THEN all_records ELSE 0 END,
                sent_up_to, sent, all_sent) + CASE WHEN s.api_name = 'PRODUCE' THEN w.record_bytes ELSE 0 END
            ELSE s.request_bytes END AS request_bytes,
        CASE WHEN all_sent > 0 THEN share(s.response_bytes - CASE WHEN s.api_name = 'FETCH' THEN all_records ELSE 0 END,
                returned_up_to, returned, all_returned) + CASE WHEN s.api_name = 'FETCH' THEN w.record_bytes ELSE 0 END
            ELSE s.response_bytes END AS response_bytes,
        CASE WHEN all_sent > 0 THEN share(handler_us, sent_up_to, sent, all_sent) ELSE handler_us END AS handler_us,
        CASE WHEN all_sent > 0 THEN share(throttle_us, sent_up_to, sent, all_sent) ELSE throttle_us END AS throttle_us
    FROM sent AS s JOIN senders AS k ON k.recording = s.recording AND k.node_id = s.node_id AND k.connection = s.connection
        AND k.principal = coalesce(s.principal, '-') AND k.client_id = coalesce(s.client_id, '-')
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
    FROM (SELECT DISTINCT p.recording, p.request_id, principal, client_id, software, group_id, zone, is_client, node_id, api_name,
            topic, error
        FROM parts AS p JOIN failed AS f ON f.recording = p.recording AND f.request_id = p.request_id
        WHERE subject IS NULL OR topic = subject OR topic = '-') AS each
),
summed AS (
    SELECT p.recording, principal, client_id, software, group_id, zone, is_client, p.node_id, api_name, topic,
        CAST(NULL AS STRING) AS error, count(*) AS listing, count(*) FILTER (place = 1) AS requests,
        sum(request_bytes) AS request_bytes, sum(response_bytes) AS response_bytes, sum(record_bytes) AS record_bytes,
        sum(handler_us) AS handler_us, sum(throttle_us) AS throttle_us,
        count(*) FILTER (place = 1 AND on_connection = 1) AS connections,
        count(*) FILTER (place = 1 AND o.request_id IS NOT NULL) AS fetch_sessions,
        CASE WHEN zone <> '-' AND max(rack) IS NOT NULL
            THEN coalesce(sum(CASE WHEN is_steady AND zone <> rack THEN record_bytes END), 0) END AS cross_zone_bytes
    FROM parts AS p LEFT JOIN racks AS k ON k.recording = p.recording AND k.broker_id = p.node_id
    LEFT JOIN (SELECT recording, request_id FROM fetches WHERE NOT is_cluster_metadata AND error_code = 0
        AND session_epoch = 0 AND response_session_id > 0) AS o ON o.recording = p.recording AND o.request_id = p.request_id
    GROUP BY p.recording, principal, client_id, software, group_id, zone, is_client, p.node_id, api_name, topic
    UNION ALL BY NAME
    SELECT recording, principal, client_id, software, group_id, zone, is_client, node_id, api_name, topic,
        error, count(*) AS listing, count(*) FILTER (place = 1) AS requests
    FROM failures
    GROUP BY recording, principal, client_id, software, group_id, zone, is_client, node_id, api_name, topic, error
),
-- Each once for usage, and once for its topic.
of_both AS (
    SELECT recording, principal, client_id, software, group_id, zone, is_client, node_id, api_name, shown AS topic, error,
        sum(CASE WHEN shown IS NULL THEN requests ELSE listing END) AS requests, sum(request_bytes) AS request_bytes,
        sum(response_bytes) AS response_bytes, sum(record_bytes) AS record_bytes, sum(handler_us) AS handler_us,
        sum(throttle_us) AS throttle_us, sum(connections) AS connections, sum(fetch_sessions) AS fetch_sessions,
        sum(cross_zone_bytes) AS cross_zone_bytes
    FROM (SELECT *, explode([NULL, topic]) AS shown FROM summed) AS each
    GROUP BY recording, principal, client_id, software, group_id, zone, is_client, node_id, api_name, shown, error
),
-- With errors beside each other.
beside AS (
    SELECT recording, principal, client_id, software, group_id, zone, is_client, node_id, api_name, topic,
        sum(requests) FILTER (error IS NULL) AS requests, sum(request_bytes) AS request_bytes,
        sum(response_bytes) AS response_bytes, coalesce(sum(record_bytes), 0) AS record_bytes,
        sum(handler_us) / 1e3 AS handler_ms, sum(throttle_us) / 1e3 AS throttle_ms,
        coalesce(sum(requests) FILTER (error IS NOT NULL), 0) AS errors,
        CASE WHEN max(error) IS NOT NULL THEN sort_array(collect_list(
            CASE WHEN error IS NOT NULL THEN {'error': error, 'requests': CAST(requests AS BIGINT)} END)) END
            AS errors_by_name,
        sum(connections) AS connections, sum(fetch_sessions) AS fetch_sessions, sum(cross_zone_bytes) AS cross_zone_bytes
    FROM of_both GROUP BY recording, principal, client_id, software, group_id, zone, is_client, node_id, api_name, topic
)
SELECT b.*, cross_zone_bytes / span_s * 2.592e-3 * dollars_per_gb AS cross_zone_dollars,
    CASE WHEN cross_zone_bytes IS NOT NULL THEN timestamp_micros(from_us) END AS cross_zone_from_at,
    CASE WHEN cross_zone_bytes IS NOT NULL THEN timestamp_micros(until_us) END AS cross_zone_until_at
FROM beside AS b LEFT JOIN rated AS r ON r.recording = b.recording AND r.node_id = b.node_id
LEFT JOIN (SELECT recording, max(dollars_per_gb) AS dollars_per_gb FROM placed GROUP BY recording) AS d ON d.recording = b.recording
