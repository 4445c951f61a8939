-- Requests and bytes of the steady phase, less the gaps in the node's log. Partitions, bytes and
-- overhead are of requests whose size is known, the others are counted. Added to what the table has of
-- files that are counted already, in blocks of counted_block_us.
CREATE TEMP MACRO total(amount) AS CAST(coalesce(sum(amount), 0) AS BIGINT);
CREATE TEMP MACRO listed(block, amount) AS list_transform(
    sort_array(collect_list({'block': block, 'amount': CAST(coalesce(amount, 0) AS BIGINT)})),
    lambda e: e.amount);
WITH blocks AS (
    SELECT recording, block, greatest(from_us, block * block_us) AS from_us,
        least(until_us, (block + 1) * block_us) AS until_us
    FROM (SELECT *, explode(range(from_us // block_us, (until_us - 1) // block_us + 1)) AS block
        FROM phases)
),
steady AS (
    -- A FETCH of the steady phase may return the burst of records of a shutdown.
    SELECT b.*, unix_micros(dequeued_at) AS at_us, unix_micros(dequeued_at) // block_us AS block,
        CASE WHEN unix_micros(built_at) >= from_us AND unix_micros(built_at) < until_us
            THEN 1 END AS response
    FROM bandwidth AS b JOIN phases ON phases.recording = b.recording
    WHERE unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
),
known AS (
    SELECT s.* FROM steady AS s ANTI JOIN gaps AS g
    ON g.recording = s.recording AND g.node_id = s.node_id AND s.at_us > g.after_us
        AND s.at_us < g.before_us
),
sides AS (
    SELECT recording, rule, variant, parameter, parameter_value, node_id, client_kind, block, [
        {'direction': 'request', 'requests': count(*),
            'partitions': total(CASE WHEN request_bytes IS NOT NULL THEN request_partitions END),
            'bytes': total(request_bytes), 'record_bytes': CAST(0 AS BIGINT),
            'unknown_size': total(CASE WHEN request_bytes IS NULL THEN 1 END)},
        {'direction': 'response', 'requests': total(response),
            'partitions': total(
                CASE WHEN response_bytes IS NOT NULL THEN response * response_partitions END),
            'bytes': total(response * response_bytes),
            'record_bytes': total(
                CASE WHEN response_bytes IS NOT NULL THEN response * record_bytes END),
            'unknown_size': total(CASE WHEN response_bytes IS NULL THEN response END)}] AS ways
    FROM known GROUP BY ALL
),
counted AS (
    SELECT recording, rule, variant, parameter, parameter_value, node_id, client_kind,
        way.direction, block, way.requests, way.partitions, way.bytes, way.record_bytes,
        way.unknown_size
    FROM (SELECT *, unnest(ways) AS way FROM sides) WHERE way.requests > 0
    UNION ALL
    SELECT recording, rule, variant, parameter, parameter_value, node_id, client_kind, direction,
        (from_us // counted_block_us + place) * counted_block_us // block_us,
        get(requests_per_block, place), get(partitions_per_block, place),
        get(bytes_per_block, place), CASE WHEN place = 0 THEN record_bytes END,
        CASE WHEN place = 0 THEN unknown_size_requests END
    FROM (SELECT s.*, from_us, block_us, counted_block_us,
            explode(range(0, size(requests_per_block))) AS place
        FROM bandwidth_summary AS s JOIN phases ON phases.recording = s.recording)
),
covered AS (
    SELECT nodes.recording, nodes.node_id, block, CAST(any_value(until_us - from_us)
        - coalesce(sum(CASE WHEN after_us < until_us AND before_us > from_us
            THEN least(before_us, until_us) - greatest(after_us, from_us) END), 0)
        AS BIGINT) AS covered_us
    FROM (SELECT DISTINCT recording, node_id FROM counted) AS nodes
    JOIN blocks ON blocks.recording = nodes.recording
    LEFT JOIN gaps ON gaps.recording = nodes.recording AND gaps.node_id = nodes.node_id
    GROUP BY nodes.recording, nodes.node_id, block
),
in_blocks AS (
    SELECT recording, rule, variant, parameter, parameter_value, node_id, client_kind, direction,
        block, sum(requests) AS requests, sum(partitions) AS partitions, sum(bytes) AS bytes,
        sum(record_bytes) AS record_bytes, sum(unknown_size) AS unknown_size
    FROM counted GROUP BY ALL
),
-- A row for each block of the phase, also of those without requests.
filled AS (
    SELECT * FROM (SELECT DISTINCT recording, rule, variant, parameter, parameter_value, node_id,
        client_kind, direction FROM in_blocks) AS g
    JOIN covered USING (recording, node_id)
    LEFT JOIN in_blocks USING (recording, rule, variant, parameter, parameter_value, node_id,
        client_kind, direction, block)
),
summed AS (
    SELECT recording, rule, variant, parameter, parameter_value, node_id, client_kind, direction,
        total(requests) AS requests, total(partitions) AS partitions, total(bytes) AS bytes,
        total(unknown_size) AS unknown_size_requests,
        total(record_bytes) AS record_bytes, sum(covered_us) / 1e6 AS span_s,
        listed(block, requests) AS requests_per_block,
        listed(block, partitions) AS partitions_per_block, listed(block, bytes) AS bytes_per_block,
        list_transform(listed(block, covered_us), lambda us: us / 1e6) AS seconds_per_block
    FROM filled GROUP BY ALL
)
SELECT recording, rule, variant, parameter, parameter_value, 'FETCH' AS api_name, node_id,
    client_kind, direction, requests, partitions, bytes, unknown_size_requests, record_bytes,
    bytes - record_bytes AS overhead_bytes, span_s,
    requests / nullif(span_s, 0e0) AS requests_per_second,
    bytes / nullif(span_s, 0e0) AS bytes_per_second,
    requests_per_block, partitions_per_block, bytes_per_block, seconds_per_block
FROM summed
