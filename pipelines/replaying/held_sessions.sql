CREATE TEMP MACRO host_of(connection) AS
    regexp_extract(connection, ':\d+-(.*):\d+-\d+(-\d+)?$', 1);
-- AbstractFetcherManager.getFetcherId: 31 * the hash code of the name (Java's) + partition, of 32 bits.
CREATE TEMP MACRO fetcher_of(topic, partition, fetchers) AS CASE WHEN fetchers = 1 THEN 0 ELSE
    abs((31 * list_sum(list_transform(
        generate_series(1, length(topic)),
        lambda i: ascii(substr(topic, CAST(i AS INT), 1))
            * get($powers_of_31, length(topic) - CAST(i AS INT))))
    + partition + 2147483648) % 4294967296 - 2147483648) % fetchers END;
-- Fetch sessions that are older than the log, those of which it has FETCHes but not the one that opened
-- them, with the partitions that they had before the first that it has. Who leads what is taken of the
-- first METADATA of all topics since then, at most $evidence_us later.
--   * A follower's are those that the broker leads and it has a replica of; but none that came meanwhile
--     (the topic was created, or the follower forgot it elsewhere), and also those that it forgot
--     meanwhile. A follower with several fetchers has a session of each, with the partitions of that one.
--   * A consumer's are those that the broker leads and a member of a group was assigned: the only one
--     with its client id and address whose assignment has all that the session names, or several that
--     have the same. A client with a rack may read elsewhere, and one that forgets partitions may have
--     done so before.
WITH sent AS (
    SELECT recording, node_id, request_id, unix_micros(dequeued_at) AS at_us, api_version, client_id,
        connection, replica_id, replica_epoch, session_id, session_epoch, response_session_id,
        error_code, rack_id,
        CASE WHEN replica_id < 0 THEN 0 ELSE CAST(coalesce(nullif(
            regexp_extract(client_id, '^broker-\d+-fetcher-(\d{1,4})$', 1), ''), '0') AS INT)
        END AS fetcher
    FROM fetches WHERE NOT coalesce(is_cluster_metadata, TRUE)
),
opened AS (
    SELECT DISTINCT recording, node_id, response_session_id AS session_id
    FROM sent WHERE session_epoch <= 0 AND response_session_id <> 0 AND error_code = 0
),
first_seen AS (
    SELECT * FROM (
        SELECT s.*, row_number() OVER (
            PARTITION BY s.recording, s.node_id, s.session_id ORDER BY at_us, request_id) AS number
        FROM sent AS s ANTI JOIN opened USING (recording, node_id, session_id)
        WHERE s.session_id <> 0 AND s.session_epoch > 0)
    WHERE number = 1
),
-- How many fetchers each follower has, where its client ids say which is which.
several AS (
    SELECT recording, replica_id, max(fetcher) + 1 AS fetchers
    FROM sent GROUP BY recording, replica_id
    HAVING replica_id < 0 OR count(DISTINCT client_id) = count(DISTINCT fetcher)
),
listings AS (
    SELECT DISTINCT b.recording, b.request_id, unix_micros(b.built_at) AS stated_us
    FROM brokers AS b WHERE of_all_topics
),
-- The first listing since each session's first FETCH.
older AS (
    SELECT * FROM (
        SELECT f.recording, f.node_id, f.at_us, f.api_version, f.client_id, f.connection,
            f.replica_id, f.replica_epoch, f.rack_id, f.session_id, f.session_epoch, f.request_id,
            f.fetcher, n.fetchers,
            l.request_id AS listing_id, l.stated_us, row_number() OVER (
                PARTITION BY f.recording, f.node_id, f.session_id
                ORDER BY l.stated_us, l.request_id) AS number
        FROM first_seen AS f JOIN several AS n
        ON n.recording = f.recording AND n.replica_id = f.replica_id
        JOIN listings AS l
        ON l.recording = f.recording AND l.stated_us >= f.at_us
            AND l.stated_us < f.at_us + $evidence_us)
    WHERE number = 1
),
-- Where a broker may have left meanwhile, another one may lead since.
watched AS (
    SELECT recording, listing_id, min(at_us) AS from_us, any_value(stated_us) AS stated_us
    FROM older GROUP BY recording, listing_id
),
hosts AS (
    SELECT DISTINCT recording, listing_id, from_us, stated_us, broker_id
    FROM (
        SELECT w.*, explode(m.replicas) AS broker_id FROM watched AS w JOIN isr_changes AS m
        ON m.recording = w.recording AND m.request_id = w.listing_id)
),
left_since AS (
    SELECT DISTINCT recording, listing_id
    FROM (
        SELECT h.recording, h.listing_id, h.broker_id
        FROM hosts AS h LEFT JOIN broker_heartbeats AS b
        ON b.recording = h.recording AND b.broker_id = h.broker_id AND b.error_code = 0
            AND unix_micros(b.dequeued_at) >= h.from_us - $silence_us
            AND unix_micros(b.dequeued_at) <= h.stated_us
        GROUP BY h.recording, h.listing_id, h.broker_id
        HAVING bool_or(b.is_fenced OR b.want_shut_down) OR count(DISTINCT b.broker_epoch) > 1
            OR coalesce(max(unix_micros(b.dequeued_at)), min(h.from_us))
                < max(h.stated_us) - $silence_us)
),
named AS (
    SELECT o.recording, o.node_id, o.session_id, m.topic, m.topic_id, m.partition
    FROM older AS o JOIN isr_changes AS m
    ON m.recording = o.recording AND m.request_id = o.listing_id AND m.leader_id = o.node_id
        AND array_contains(m.replicas, o.replica_id)
    WHERE o.replica_id >= 0 AND fetcher_of(m.topic, m.partition, o.fetchers) = o.fetcher
),
-- Sessions of several fetchers, if all that they name says which is whose: one that the log does not
-- show would soon be refuted, and so would names that were replaced (kip-replay anonymize).
fetched AS (
    SELECT s.recording, coalesce(names.name, s.p.topic, s.p.topic_id) AS topic,
        s.p.partition AS partition, fetcher, fetchers
    FROM (
        SELECT o.recording, o.fetcher, o.fetchers, explode(f.request_partitions) AS p
        FROM older AS o JOIN fetches AS f USING (recording, node_id, session_id)
        WHERE o.fetchers > 1 AND unix_micros(f.dequeued_at) < o.at_us + $evidence_us
    ) AS s
    LEFT JOIN topic_names AS names
    ON names.recording = s.recording AND names.topic_id = s.p.topic_id
),
certain AS (
    SELECT recording FROM fetched GROUP BY recording
    HAVING bool_and(fetcher_of(topic, partition, fetchers) = fetcher)
        AND count(DISTINCT concat_ws('-', topic, partition)) >= 6
),
counted AS (
    SELECT * FROM older WHERE fetchers = 1
    UNION ALL SELECT * FROM older SEMI JOIN certain USING (recording) WHERE fetchers > 1
),
created AS (
    SELECT recording, topic, max(unix_micros(built_at)) AS created_us
    FROM topics WHERE source = 'CREATE_TOPICS' AND coalesce(error_code, 0) = 0
    GROUP BY recording, topic
),
forgotten AS (
    SELECT f.recording, f.node_id, f.replica_id, f.at_us,
        coalesce(names.name, f.gone.topic, f.gone.topic_id) AS topic, f.gone.topic_id AS topic_id,
        f.gone.partition AS partition
    FROM (
        SELECT recording, node_id, replica_id, unix_micros(dequeued_at) AS at_us,
            explode(forgotten_partitions) AS gone
        FROM fetches WHERE replica_id >= 0 AND size(forgotten_partitions) > 0) AS f
    LEFT JOIN topic_names AS names
    ON names.recording = f.recording AND names.topic_id = f.gone.topic_id
),
-- What the follower forgot since the first FETCH: at this broker (it had it), or at another one.
moved AS (
    SELECT DISTINCT o.recording, o.node_id, o.session_id, f.topic, f.topic_id, f.partition,
        f.node_id = o.node_id AS is_gone
    FROM older AS o JOIN forgotten AS f
    ON f.recording = o.recording AND f.replica_id = o.replica_id AND f.at_us >= o.at_us
        AND f.at_us < o.stated_us AND fetcher_of(f.topic, f.partition, o.fetchers) = o.fetcher
),
of_followers AS (
    SELECT recording, node_id, session_id, topic, topic_id, partition
    FROM named ANTI JOIN (SELECT * FROM moved WHERE NOT is_gone) AS elsewhere
    USING (recording, node_id, session_id, topic, partition)
    UNION
    SELECT recording, node_id, session_id, topic, topic_id, partition FROM moved WHERE is_gone
),
-- What consumers' sessions name until the listing, and members that may be theirs.
consumed AS (
    SELECT o.recording, o.node_id, o.session_id, s.forgotten_partitions,
        list_concat(coalesce(list_transform(s.request_partitions, lambda p: {
                'topic': p.topic, 'topic_id': p.topic_id, 'partition': p.partition}), []),
            coalesce(list_transform(s.response_partitions, lambda p: {
                'topic': p.topic, 'topic_id': p.topic_id, 'partition': p.partition}), [])) AS listed
    FROM older AS o JOIN fetches AS s USING (recording, node_id, session_id)
    WHERE o.replica_id = -1 AND coalesce(o.rack_id, '') = ''
        AND unix_micros(s.dequeued_at) <= o.stated_us
),
steady AS (
    SELECT recording, node_id, session_id FROM consumed GROUP BY recording, node_id, session_id
    HAVING max(coalesce(size(forgotten_partitions), 0)) = 0
),
consumed_partitions AS (
    SELECT DISTINCT c.recording, c.node_id, c.session_id,
        coalesce(names.name, c.p.topic, c.p.topic_id) AS topic, c.p.partition AS partition
    FROM (SELECT recording, node_id, session_id, explode(listed) AS p FROM consumed) AS c
    LEFT JOIN topic_names AS names
    ON names.recording = c.recording AND names.topic_id = c.p.topic_id
),
candidates AS (
    SELECT * FROM (
        SELECT o.recording, o.node_id, o.session_id, o.listing_id, a.group_id, a.member_id,
            list_transform(a.partitions, lambda p: {
                'topic': p.topic, 'topic_id': p.topic_id, 'partition': p.partition}) AS partitions,
            row_number() OVER (
                PARTITION BY o.recording, o.node_id, o.session_id, a.group_id, a.member_id
                ORDER BY a.built_at, a.request_id) AS number
        FROM older AS o SEMI JOIN steady USING (recording, node_id, session_id)
        JOIN group_assignments AS a
        ON a.recording = o.recording AND a.client_id = o.client_id
            AND a.client_host = host_of(o.connection) AND unix_micros(a.built_at) >= o.at_us
            AND unix_micros(a.built_at) < o.at_us + $evidence_us)
    WHERE number = 1
),
assigned AS (
    SELECT c.recording, c.node_id, c.session_id, c.group_id, c.member_id, m.topic, m.topic_id,
        m.partition
    FROM (SELECT *, explode(partitions) AS p FROM candidates) AS c JOIN isr_changes AS m
    ON m.recording = c.recording AND m.request_id = c.listing_id AND m.leader_id = c.node_id
        AND m.partition = c.p.partition AND (m.topic = c.p.topic OR m.topic_id = c.p.topic_id)
),
refuted AS (
    SELECT DISTINCT recording, node_id, session_id, group_id, member_id
    FROM candidates JOIN consumed_partitions USING (recording, node_id, session_id)
    ANTI JOIN assigned
    USING (recording, node_id, session_id, group_id, member_id, topic, partition)
),
-- The only member that is left of each session, or the first of several that have the same.
consumers AS (
    SELECT recording, node_id, session_id, min(group_id) AS group_id,
        min_by(member_id, (group_id, member_id)) AS member_id
    FROM candidates ANTI JOIN refuted USING (recording, node_id, session_id, group_id, member_id)
    GROUP BY recording, node_id, session_id HAVING count(DISTINCT array_sort(partitions)) = 1
),
members AS (
    SELECT * FROM of_followers
    UNION ALL
    SELECT recording, node_id, session_id, topic, topic_id, partition
    FROM assigned SEMI JOIN consumers USING (recording, node_id, session_id, group_id, member_id)
)
SELECT o.recording, o.node_id, o.session_id, any_value(o.session_epoch) AS session_epoch,
    any_value(o.api_version) AS api_version, any_value(o.client_id) AS client_id,
    any_value(o.connection) AS connection, any_value(o.replica_id) AS replica_id,
    any_value(o.replica_epoch) AS replica_epoch,
    array_sort(list({'topic_id': m.topic_id, 'topic': m.topic, 'partition': m.partition}))
        AS partitions,
    timestamp_micros(any_value(o.at_us)) AS held_from,
    timestamp_micros(any_value(o.stated_us)) AS stated_at, any_value(o.request_id) AS request_id,
    any_value(o.listing_id) AS evidence_request_id
FROM counted AS o JOIN members AS m USING (recording, node_id, session_id)
ANTI JOIN left_since USING (recording, listing_id)
LEFT JOIN created AS c
ON c.recording = m.recording AND c.topic = m.topic AND c.created_us >= o.at_us
    AND c.created_us < o.stated_us + 1000000
WHERE c.topic IS NULL
GROUP BY o.recording, o.node_id, o.session_id
