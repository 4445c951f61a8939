"""What logs have of how far two nodes' clocks are apart: pairs of events whose order is certain.

Where an event on one node comes before one on another, the second's stamp less the first's bounds
how far the second's clock can be ahead (``replay.kafka.clocks``). Three kinds of evidence:

``forwarded``
    A broker takes a write up, a controller gets it in an ENVELOPE and responds, the broker responds
    (``ForwardingManager``). Both lines have the client's id, correlation id and API, which clients
    repeat: only two that have no other partner, name the same, and come from the broker's host are
    held together.
``image``
    A broker's API_VERSIONS carries the offset of its metadata image. It was not committed yet when
    the leader took up a FETCH to which it returned a high watermark at or below it. And what a
    later heartbeat of the broker has beyond it was not in the image yet.
``topic``
    A broker's METADATA shows a topic after the controller took up its CREATE_TOPICS. One that does
    not show it yet comes before the broker's first heartbeat whose offset is at or above a high
    watermark that was returned after the creation.
"""

from collections.abc import Mapping, Sequence

from duckdb import DuckDBPyConnection

from kip_replay.replay.kafka.clocks import Order

#: Of the pairs of a kind, the hundredth that bounds most closely is left out: a line can be
#: written late. Of less than a hundred, none is.
_LEFT_OUT = 0.01

_HEADER = "client_id, api_name, api_version, correlation_id, names"
#: Who connected, of a line's connection: local host:port-remote host:port-processor-index.
_REMOTE_HOST = "regexp_extract(connection, '^.*?:\\d+-(.*):\\d+(-\\d+)+$', 1)"

_FORWARDED = f"""
CREATE TEMP TABLE forwarded AS
WITH writes AS (
    SELECT recording, node_id, request_id, is_forwarded, dequeued_at, received_at, built_at,
           client_id, api_name, api_version, correlation_id, connection,
           list_transform(resources, lambda one: one.name) AS names
    FROM metadata_writes),
hosts AS (SELECT DISTINCT recording, broker_id AS broker, {_REMOTE_HOST} AS host
          FROM broker_heartbeats),
of_controllers AS (
    SELECT *, count(*) OVER (PARTITION BY recording, node_id, broker, {_HEADER}) AS copies
    FROM (SELECT *, {_REMOTE_HOST} AS host FROM writes WHERE is_forwarded)
    JOIN hosts USING (recording, host)),
of_brokers AS (
    SELECT *, count(*) OVER (PARTITION BY recording, node_id, {_HEADER}) AS copies
    FROM writes WHERE NOT is_forwarded)
SELECT c.recording, c.broker, c.node_id AS controller,
       epoch_us(c.received_at) - epoch_us(b.dequeued_at) AS there_us,
       epoch_us(b.built_at) - epoch_us(c.built_at) AS back_us
FROM of_controllers c JOIN of_brokers b USING (recording, api_name, api_version, correlation_id)
WHERE c.copies = 1 AND b.copies = 1 AND b.node_id = c.broker AND b.node_id <> c.node_id
  AND b.client_id IS NOT DISTINCT FROM c.client_id AND b.names = c.names
QUALIFY count(*) OVER (PARTITION BY c.recording, c.request_id) = 1
"""

#: What brokers had applied, and since when controllers know; what a leader returned of its high
#: watermark, and until when it had not risen above it. A deposed leader sees nothing rise.
_OFFSETS = """
CREATE TEMP TABLE beats AS
WITH reached AS (
    SELECT recording, node_id AS controller, broker_id AS broker,
           current_metadata_offset AS reached, min(epoch_us(received_at)) AS received_us
    FROM broker_heartbeats GROUP BY ALL)
SELECT recording, controller, broker, reached,
       min(received_us) OVER (PARTITION BY recording, controller, broker ORDER BY reached DESC)
           AS since_us
FROM reached;

CREATE TEMP TABLE returned AS
SELECT recording, node_id AS controller, request_partitions[1].current_leader_epoch AS epoch,
       epoch_us(dequeued_at) AS taken_us, response_partitions[1].high_watermark AS high_watermark
FROM fetches
WHERE node_id IN ({controllers}) AND is_cluster_metadata AND error_code = 0
  AND response_partitions[1].error_code = 0 AND response_partitions[1].high_watermark >= 0;

CREATE TEMP TABLE uncommitted AS
WITH taken AS (
    SELECT recording, controller, epoch, high_watermark, max(taken_us) AS taken_us
    FROM returned GROUP BY ALL)
SELECT recording, controller, epoch, high_watermark,
       max(taken_us) OVER (of_epoch ORDER BY high_watermark) AS until_us,
       max(high_watermark) OVER of_epoch AS highest
FROM taken WINDOW of_epoch AS (PARTITION BY recording, controller, epoch)
"""

_IMAGES = """
CREATE TEMP TABLE images AS
SELECT recording, node_id AS broker, metadata_offset AS image,
       epoch_us(dequeued_at) AS taken_us, epoch_us(built_at) AS built_us
FROM metadata_offsets SEMI JOIN (SELECT recording, broker AS node_id FROM beats)
USING (recording, node_id)
WHERE kind = 'finalized_features_epoch' AND (recording, node_id) NOT IN (FROM voters)
"""

#: Topics that were created once and, as far as the log shows, never before; brokers that first did
#: not show one and then did.
_TOPICS = """
CREATE TEMP TABLE created AS
WITH written AS (
    SELECT recording, node_id AS controller, api_name, dequeued_at, built_at,
           unnest(list_filter(resources, lambda one: one.error_code = 0)).name AS topic
    FROM metadata_writes SEMI JOIN voters
    ON metadata_writes.recording = voters.recording AND node_id = voter
    WHERE api_name IN ('CREATE_TOPICS', 'DELETE_TOPICS') AND NOT coalesce(validate_only, false)),
of_several AS (
    SELECT recording, topic FROM topics WHERE topic_id IS NOT NULL
    GROUP BY ALL HAVING count(DISTINCT topic_id) > 1)
SELECT recording, topic, any_value(controller) AS controller,
       epoch_us(any_value(dequeued_at)) AS created_us, epoch_us(any_value(built_at)) AS responded_us
FROM written ANTI JOIN of_several USING (recording, topic)
GROUP BY recording, topic HAVING count(*) = 1 AND any_value(api_name) = 'CREATE_TOPICS';

CREATE TEMP TABLE seen AS
WITH polled AS (
    SELECT recording, node_id AS broker, topic, error_code = 0 AS is_shown,
           epoch_us(topics.built_at) AS polled_us, epoch_us(dequeued_at) AS taken_us
    FROM topics JOIN requests USING (recording, node_id, request_id)
    SEMI JOIN created USING (recording, topic)
    WHERE source = 'METADATA' AND error_code IN (0, 3)),
shown AS (
    SELECT recording, broker, topic, min(polled_us) AS shown_us FROM polled
    WHERE is_shown GROUP BY ALL)
SELECT recording, broker, topic, controller, created_us, responded_us, shown_us,
       max(taken_us) AS missing_us
FROM shown JOIN polled USING (recording, broker, topic) JOIN created USING (recording, topic)
WHERE NOT is_shown AND polled_us < shown_us
GROUP BY ALL
"""

_PAIRS = """
CREATE TEMP TABLE pairs AS
WITH leaders AS (SELECT DISTINCT recording, controller, epoch FROM uncommitted),
heard AS (SELECT DISTINCT recording, controller, broker FROM beats),
visible AS (
    SELECT seen.*, high_watermark - 1 AS applied
    FROM seen ASOF JOIN returned
    ON seen.recording = returned.recording AND seen.controller = returned.controller
    AND seen.responded_us <= returned.taken_us)
SELECT recording, broker AS before, controller AS after, 'forwarded' AS kind, there_us AS gap_us
FROM forwarded
UNION ALL
SELECT recording, controller, broker, 'forwarded', back_us FROM forwarded
UNION ALL
SELECT i.recording, i.controller, broker, 'image', built_us - until_us
FROM (FROM images JOIN leaders USING (recording)) i ASOF JOIN uncommitted u
ON i.recording = u.recording AND i.controller = u.controller AND i.epoch = u.epoch
AND i.image >= u.high_watermark
WHERE image < highest
UNION ALL
SELECT i.recording, i.broker, i.controller, 'image', since_us - taken_us
FROM (FROM images JOIN heard USING (recording, broker)) i ASOF JOIN beats b
ON i.recording = b.recording AND i.controller = b.controller AND i.broker = b.broker
AND i.image < b.reached
UNION ALL
SELECT recording, controller, broker, 'topic', shown_us - created_us FROM visible
UNION ALL
SELECT v.recording, v.broker, v.controller, 'topic', since_us - missing_us
FROM visible v ASOF JOIN beats b
ON v.recording = b.recording AND v.controller = b.controller AND v.broker = b.broker
AND v.applied <= b.reached
"""

_ORDERS = f"""
SELECT recording, before, after, kind, count(*), quantile_disc(gap_us, {_LEFT_OUT})
FROM pairs GROUP BY ALL ORDER BY ALL
"""


def orders(
    database: DuckDBPyConnection, voters: Mapping[str, Sequence[int]]
) -> dict[str, list[Order]]:
    """What the log bounds, by recording; ``voters``: their ids by recording."""
    rows = [(name, voter) for name, ids in voters.items() for voter in ids]
    database.execute("CREATE TEMP TABLE voters (recording VARCHAR, voter INTEGER)")
    if rows:
        database.executemany("INSERT INTO voters VALUES (?, ?)", rows)
    # As numbers in the query they spare what brokers logged from being read.
    controllers = ", ".join(str(voter) for voter in sorted({voter for _, voter in rows})) or "NULL"
    offsets = _OFFSETS.format(controllers=controllers)
    for sql in (_FORWARDED, offsets, _IMAGES, _TOPICS, _PAIRS):
        database.execute(sql)
    found: dict[str, list[Order]] = {name: [] for name in voters}
    for recording, *values in database.execute(_ORDERS).fetchall():
        found[recording].append(Order(*values))
    return found
