-- Requests and bytes of the steady phase, less the gaps in the node's log. Bytes are null where the
-- size is not known; overhead is only known of requests whose size is.
CREATE TEMP MACRO of_block(amount, block, n) AS CAST(sum(CASE WHEN block = n THEN amount END) AS BIGINT);
CREATE TEMP MACRO of_blocks(amount, block) AS [
    of_block(amount, block, 0), of_block(amount, block, 1), of_block(amount, block, 2),
    of_block(amount, block, 3), of_block(amount, block, 4), of_block(amount, block, 5),
    of_block(amount, block, 6), of_block(amount, block, 7), of_block(amount, block, 8),
    of_block(amount, block, 9), of_block(amount, block, 10), of_block(amount, block, 11),
    of_block(amount, block, 12), of_block(amount, block, 13), of_block(amount, block, 14),
    of_block(amount, block, 15)];
WITH missing AS (
    SELECT gaps.recording, gaps.node_id, CAST(sum(greatest(
            0, least(before_us, until_us) - greatest(after_us, from_us))) AS BIGINT) AS missing_us
    FROM gaps JOIN phases ON phases.recording = gaps.recording GROUP BY gaps.recording, gaps.node_id
),
steady AS (
    SELECT b.*, unix_micros(dequeued_at) AS at_us, unix_micros(built_at) AS built_us, from_us,
        until_us
    FROM bandwidth AS b JOIN phases ON phases.recording = b.recording
    WHERE unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
),
known AS (
    SELECT s.* FROM steady AS s ANTI JOIN gaps AS g
    ON g.recording = s.recording AND g.node_id = s.node_id AND s.at_us > g.after_us
        AND s.at_us < g.before_us
),
ways AS (
    SELECT recording, rule, variant, parameter, parameter_value, node_id, client_kind, from_us,
        until_us, built_us, least($blocks - 1,
            (at_us - from_us) * $blocks // nullif(until_us - from_us, 0)) AS block,
        unnest([
            {'direction': 'request', 'partitions': request_partitions, 'bytes': request_bytes,
                'record_bytes': CAST(0 AS BIGINT)},
            {'direction': 'response', 'partitions': response_partitions, 'bytes': response_bytes,
                'record_bytes': record_bytes}]) AS way
    FROM known
),
summed AS (
    SELECT recording, rule, variant, parameter, parameter_value, node_id, client_kind,
        way.direction, count(*) AS requests, CAST(sum(way.partitions) AS BIGINT) AS partitions,
        CAST(coalesce(sum(way.bytes), 0) AS BIGINT) AS bytes,
        CAST(count_if(way.bytes IS NULL) AS BIGINT) AS unknown_size_requests,
        CAST(sum(CASE WHEN way.bytes IS NULL THEN 0 ELSE coalesce(way.record_bytes, 0) END)
            AS BIGINT) AS record_bytes,
        max(until_us - from_us) AS span_us, of_blocks(1, block) AS requests_per_block,
        of_blocks(way.partitions, block) AS partitions_per_block, of_blocks(way.bytes, block) AS bytes_per_block
    FROM ways
    -- A FETCH of the steady phase may return the burst of records of a shutdown.
    WHERE way.direction = 'request' OR (built_us >= from_us AND built_us < until_us)
    GROUP BY recording, rule, variant, parameter, parameter_value, node_id, client_kind,
        way.direction
),
spanned AS (
    SELECT summed.*, span_us / 1e6 - coalesce(missing_us, 0) / 1e6 AS span_s
    FROM summed LEFT JOIN missing
    ON missing.recording = summed.recording AND missing.node_id = summed.node_id
)
SELECT recording, rule, variant, parameter, parameter_value, 'FETCH' AS api_name, node_id,
    client_kind, direction, requests, partitions, bytes, unknown_size_requests, record_bytes,
    bytes - record_bytes AS overhead_bytes, span_s,
    requests / nullif(span_s, 0e0) AS requests_per_second,
    bytes / nullif(span_s, 0e0) AS bytes_per_second,
    requests_per_block, partitions_per_block, bytes_per_block
FROM spanned
