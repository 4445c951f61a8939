"""The names of topic ids, as rules read them."""

from constructed import row
from pyspark.sql import SparkSession
from small_tables import reader, rows_of

from kip_replay.pipelines.replaying.dependencies import topic_names
from kip_replay.replay.log_tables import TOPICS


def test_names_are_those_of_all_rows_that_have_both(spark: SparkSession) -> None:
    """LEADER_NOT_AVAILABLE has both; UNKNOWN_TOPIC_OR_PARTITION (3) has an id where the topic came
    while the broker looked; UNKNOWN_TOPIC_ID (100) has no name, so that its id stands for it.
    """
    returned = [
        ("orders", "id-1", 0),
        ("orders", "id-2", 5),
        ("payments", "id-3", 3),
        ("gone", None, 3),
        ("id-4", "id-4", 100),
        ("orders", "id-1", 3),
    ]
    rows = [
        row(TOPICS, recording="r", request_id=str(n), topic=name, topic_id=topic_id, error_code=e)
        for n, (name, topic_id, e) in enumerate(returned)
    ]
    names = rows_of(topic_names(reader(spark, {TOPICS: rows})(TOPICS)))
    assert sorted((each["topic_id"], each["name"]) for each in names) == [
        ("id-1", "orders"),
        ("id-2", "orders"),
        ("id-3", "payments"),
    ]
