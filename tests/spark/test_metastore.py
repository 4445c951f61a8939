"""Tables and views by name in Spark's catalogs: its own of a session, and Hive's metastore."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pytest
from ran import made_once, ran
from small_logs import folder_of

from kip_replay.jobs import catalog, run
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import in_order, read_views
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
FOLDER = folder_of("failover-4.0")
DECISIONS = "SELECT rule, advice FROM {}decisions ORDER BY rule"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    def make(folder: Path) -> None:
        assert run.main([str(FOLDER), "--warehouse", str(folder), "--engine", "local"]) == 0

    return str(made_once(tmp_path_factory, "named", make))


def test_a_run_names_its_tables_in_the_catalog_of_a_session(
    spark: "SparkSession", path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--warehouse", path, "--catalog", "kafka_replay"]
    spark.range(1).createOrReplaceTempView("requests")  # as a text of a step leaves them
    assert run.main([str(FOLDER), *given, "--engine", "local"]) == 0
    warehouse, views = Warehouse(path), in_order(read_views(), TABLES)

    def there() -> set[str]:
        rows = spark.sql("SHOW TABLES IN kafka_replay").collect()
        return {row.tableName for row in rows if not row.isTemporary}

    assert there() == {*TABLES, *(view.name for view in views)}
    expected = Catalog(path, read_views()).arrow(DECISIONS.format("")).to_pylist()
    assert spark.sql(DECISIONS.format("kafka_replay.")).toArrow().to_pylist() == expected
    by_path = deltalake.DeltaTable(warehouse.uri_of(TABLES["decisions"])).to_pyarrow_table()
    assert by_path.num_rows == len(expected) == 5
    comments = {
        r.col_name: r.comment for r in spark.sql("DESCRIBE kafka_replay.steady_lag").collect()
    }
    assert comments["recording"] == "name of the recording (recording.json: name)"
    assert comments["max_ms"] == "largest"
    assert spark.catalog.currentDatabase() == "default"
    # Again: nothing changes, and of what is another's nothing is touched.
    assert catalog.main(["register", *given]) == 0
    other = ["--warehouse", str(tmp_path / "other"), *given[2:]]
    assert run.main([str(FOLDER), *other, "--engine", "local"]) == 2
    assert "of another place than the warehouse" in capsys.readouterr().err
    assert catalog.main(["drop", *other]) == 0
    assert spark.catalog.tableExists("kafka_replay.decisions")
    assert catalog.main(["drop", *given]) == 0
    assert there() == set()
    assert all(map(warehouse.exists, TABLES.values()))


def test_names_stay_in_the_metastore_of_hive(path: str, tmp_path: Path) -> None:
    """Embedded Derby, in the folder where a command is entered; read by a session of its own."""
    command = [sys.executable, "-m", "kip_replay.jobs.main", "catalog"]
    given = ["--warehouse", path, "--catalog", "spark_catalog.kafka_replay"]
    for _ in range(2):
        done = ran(*command, "register", *given, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"catalog: {len(TABLES)} tables and ")
    program = (
        "from kip_replay.pipelines.engines.session import spark_session\n"
        "spark = spark_session('reader', has_metastore=True)\n"
        f"print(*(r.advice for r in spark.sql({DECISIONS.format('kafka_replay.')!r}).collect()))\n"
    )
    decided = Catalog(path, []).query(DECISIONS.format("")).rows
    read = ran(sys.executable, "-c", program, cwd=tmp_path)
    assert (read.stdout, read.stderr) == (" ".join(advice for _, advice in decided) + "\n", "")
    dropped = ran(*command, "drop", *given, cwd=tmp_path)
    assert dropped.stdout.startswith(f"catalog: {len(TABLES)} tables are no longer in")


def test_without_a_schema_nothing_starts(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, said in ((["--catalog", "a.b.c"], "is no name"), ([], "name a schema")):
        assert catalog.main(["register", "--warehouse", path, *wrong]) == 2
        assert said in capsys.readouterr().err
