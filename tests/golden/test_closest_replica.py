"""Consumers that read from leaders and from followers, as brokers had it, and a naive reader."""

from pathlib import Path

import pytest
from small_logs import folder_of

from kip_replay.pipelines.analysis.decide import decide
from kip_replay.pipelines.analysis.summarize import comparable_pairs, summarize
from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.replay import replay
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

from .recorded import OPTIONS, STEPS, InThisProcess, found, quiet

pytestmark = pytest.mark.golden

RULE = "closest_replica"


def test_every_redirect_is_to_the_replica_that_the_rule_chooses() -> None:
    [(redirects, same, elsewhere)] = found(
        "racks-aware",
        RULE,
        """SELECT count(preferred_read_replica), count(*) FILTER (
            replica_id = preferred_read_replica AND is_redirected),
            count(*) FILTER (record_bytes > 0 AND node_id <> replica_id)
        FROM closest_replica_outcomes WHERE variant = 'closest' AND parameter = 'none'""",
    )
    assert (redirects, same, elsewhere) == (35, 35, 0)


@pytest.mark.parametrize("name", ["racks-leader", "racks-aware"])
def test_only_topics_without_a_replica_in_the_zone_are_read_across(name: str) -> None:
    crossing = found(
        name,
        RULE,
        """SELECT DISTINCT variant, topic FROM closest_replica_outcomes
        WHERE is_cross_zone AND variant IN ('leader', 'closest') ORDER BY ALL""",
    )
    leaders = [("leader", topic) for topic in ("busy", "quiet", "steady", "two")]
    assert crossing == [("closest", "two"), *leaders]


def test_records_and_delays_are_those_of_a_naive_reader() -> None:
    """Of each read in one query: the last first FETCH of a follower that has the record, until the
    first response with its high watermark and half of the way that the FETCH before it took."""
    [(reads, near, record_bytes, read_bytes)] = found(
        "racks-leader",
        RULE,
        """WITH names AS (SELECT DISTINCT topic_id, topic FROM topics WHERE topic_id <> topic),
        asked AS (
            SELECT node_id, replica_id, dequeued_at, topic, p.partition AS partition, p.fetch_offset
            FROM (SELECT *, unnest(request_partitions) AS p FROM fetches WHERE replica_id >= 0)
            JOIN names ON topic_id = p.topic_id),
        told AS (
            SELECT node_id, replica_id, built_at, topic, p.partition AS partition, p.high_watermark,
                way
            FROM (SELECT *, unnest(response_partitions) AS p FROM (
                SELECT *, (epoch_us(received_at) - lag(epoch_us(built_at)) OVER (
                    PARTITION BY node_id, replica_id ORDER BY dequeued_at)) // 2 AS way
                FROM fetches WHERE replica_id >= 0 AND NOT is_cluster_metadata))
            JOIN names ON topic_id = p.topic_id),
        moved AS (
            FROM closest_replica_outcomes
            WHERE variant = 'closest' AND parameter = 'none' AND replica_id <> leader_id
                AND is_awaited),
        naive AS (
            SELECT m.request_id, m.topic, m.partition, added_ms, (
                SELECT max(at_us) FROM (
                    SELECT min(epoch_us(dequeued_at)) AS at_us FROM asked AS a
                    WHERE a.node_id = m.leader_id AND a.topic = m.topic
                        AND a.partition = m.partition AND a.fetch_offset > m.fetch_offset
                    GROUP BY replica_id)) AS passed_us, (
                SELECT min(epoch_us(built_at) + way) FROM told AS t
                WHERE t.node_id = m.leader_id AND t.replica_id = m.replica_id
                    AND t.topic = m.topic AND t.partition = m.partition
                    AND t.high_watermark > m.fetch_offset) AS given_us
            FROM moved AS m)
        SELECT count(*), count(*) FILTER (abs(given_us - passed_us - 1000 * added_ms) <= 5000),
            (SELECT sum(record_bytes)::BIGINT FROM closest_replica_outcomes
                WHERE variant = 'leader'),
            (SELECT sum(p.record_bytes)::BIGINT FROM (
                SELECT unnest(response_partitions) AS p FROM fetches WHERE replica_id = -1))
        FROM naive""",
    )
    assert record_bytes == read_bytes
    assert reads > 5000
    assert near >= 0.98 * reads


def test_what_crosses_zones_is_one_figure(tmp_path: Path) -> None:
    """Headline, dollars, both views, what is judged, and the lines of who reads from leaders."""
    recordings = [load_recording(folder_of(f"racks-{name}")) for name in ("aware", "leader")]
    engine, rules = InThisProcess(Warehouse(tmp_path)), [STEPS[RULE]]
    ingest(recordings, engine, say=quiet)
    replay(recordings, engine, rules, OPTIONS, say=quiet)
    names = [recording.name for recording in recordings]
    summarize(names, engine, rules, comparable_pairs(recordings), quiet)
    decide(engine, names, rules, OPTIONS, quiet)
    with engine.warehouse.database(names) as database:
        create_views(database, in_order(read_views(), TABLES))
        figures = database.execute("""
            SELECT if(variant = 'leader', gain.before, gain.after), across_per_second,
                (SELECT sum(if(t.variant = 'leader', across_leader, across_closest))
                    FROM reads_by_client AS c WHERE c.recording = t.recording),
                (SELECT predicted FROM prediction_accuracy AS p WHERE p.variant = t.variant
                    AND predicted_from = t.recording AND metric = 'bytes_per_second' AND passed),
                facts[if(variant = 'leader', 'dollars_before', 'dollars_after')]::DOUBLE
            FROM cross_zone_traffic AS t JOIN decisions USING (recording)
            WHERE sender = 'consumers' ORDER BY recording, variant""").fetchall()
        of_lines = database.execute("""
            SELECT sum(p.record_bytes) * 1e6 / any_value(until_us - from_us) FROM (
                SELECT *, unnest(response_partitions) AS p FROM fetches WHERE replica_id = -1) AS f
            JOIN steady_phases USING (recording) JOIN (
                SELECT DISTINCT recording, broker_id AS node_id, rack FROM brokers)
            USING (recording, node_id)
            WHERE rack_id <> rack AND rack_id <> '' AND epoch_us(dequeued_at) >= from_us
                AND epoch_us(built_at) < until_us
            GROUP BY recording ORDER BY recording""").fetchall()
    for headline, *same, dollars in figures:
        assert same == pytest.approx(3 * [headline], rel=1e-12)
        assert dollars == round(2.592e-3 * 0.02 * headline, 2)
    recorded = [(headline,) for headline, *_ in (figures[0], figures[3])]
    assert recorded == [pytest.approx(row, rel=1e-12) for row in of_lines]
