-- FETCHes of topic partitions without an error, times as UTC microseconds. Of a follower's: noted_us, when
-- the leader noted its progress (half way through the handler, at most $progress_us_max after it began), and
-- refused, what the response has of partitions of which it noted none.
CREATE TEMP MACRO kind_order(kind) AS list_position($kinds, kind) - 1;
CREATE TEMP MACRO host_of(connection) AS
    regexp_extract(connection, ':\d+-(.*):\d+-\d+(-\d+)?$', 1);
CREATE TEMP MACRO is_same(a, b) AS a.partition = b.partition
    AND a.topic IS NOT DISTINCT FROM b.topic AND a.topic_id IS NOT DISTINCT FROM b.topic_id;
CREATE TEMP MACRO is_in(p, others) AS size(list_filter(others, lambda o: is_same(p, o))) > 0;
SELECT *, dequeued_us + least((handled_us - dequeued_us) // 2, $progress_us_max) AS noted_us
FROM (
    SELECT *, unix_micros(received_at) AS received_us, unix_micros(dequeued_at) AS dequeued_us,
        unix_micros(handled_at) AS handled_us, unix_micros(built_at) AS built_us,
        list_filter(response_partitions,
            lambda r: r.error_code <> 0 OR coalesce(r.diverging_epoch, -1) >= 0) AS refused
    FROM fetches WHERE error_code = 0 AND NOT is_cluster_metadata)
