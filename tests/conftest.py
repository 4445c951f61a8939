"""What tests share: a Spark session, with the marker that follows from it, and a warehouse."""

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kip_replay.pipelines.warehouse.tables import Warehouse

# A busy machine is no failure. ``make test-hard`` draws ten times as many examples.
settings.register_profile("default", deadline=None, max_examples=10)
settings.register_profile("hard", deadline=None, max_examples=100)
settings.load_profile("default")
# Recordings that are read stay: looking through them for garbage took a sixth of the time.
gc.set_threshold(100_000, 20, 100)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    from kip_replay.pipelines.engines.session import spark_session  # takes a second

    session = spark_session(
        "tests",
        warehouse=tmp_path_factory.mktemp("warehouse"),
        conf_overrides={
            # Two threads wherever the tests run: enough to interleave tasks, and a test that
            # passes on a large machine passes on the small one.
            "spark.master": "local[2]",
            # Tests have rows, not gigabytes; more than one partition, or a wrong grouping would
            # not show.
            "spark.sql.shuffle.partitions": "3",
            # Merging would put those rows back into one partition.
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
            # One data source's failure is one test's: no second attempt hides a flaky one.
            "spark.task.maxFailures": "1",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> "Warehouse":
    from ran import warehouse_of
    from small_logs import PLACES

    return warehouse_of(tmp_path_factory, "samples", PLACES[0])


@pytest.fixture(scope="session")
def every_recording(tmp_path_factory: pytest.TempPathFactory) -> "Warehouse":
    from ran import warehouse_of
    from small_logs import PLACES

    return warehouse_of(tmp_path_factory, "every-recording", *PLACES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or "spark" in item.path.parts:
            item.add_marker(pytest.mark.spark)
    # Workers steal from the end, so those of Spark are first: they share one session of a worker.
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, item.path.parent.name))
