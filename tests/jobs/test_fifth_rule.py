"""A rule is one folder on each side: every step finds a fifth one without being told of it.

A mistake in its files is one sentence with the file, the key and what it needs.
"""

import json
import shutil
from functools import partial
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from small_logs import REPOSITORY, folder_of
from toy_rule import NAME, install, python

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rule_files import RuleFile, read_page, read_toml, require_facts


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed"))


def test_a_fifth_rule_is_found_by_every_step(installed: Path, tmp_path: Path) -> None:
    recording, warehouse = tmp_path / "metadata-4.0", tmp_path / "warehouse"
    shutil.copytree(folder_of("metadata-4.0"), recording)
    manifest = recording / "recording.json"
    stated = {**json.loads(manifest.read_text()), "slow_clients": {"broker-12-fetcher-0": "far"}}
    manifest.write_text(json.dumps(stated))
    run = ("-m", "kip_replay.jobs.main", "run", str(recording), "--warehouse", str(warehouse))
    printed = python(installed, *run)
    assert f"  {NAME} (A toy): not enough data. Too uncertain (" in printed

    def count(table: str, where: str = "true") -> int:
        rows = DeltaTable(str(warehouse / table)).to_pyarrow_dataset()  # noqa: F841
        [(rows_found,)] = duckdb.sql(f"SELECT count(*) FROM rows WHERE {where}").fetchall()
        return int(rows_found)

    assert count("sooner_outcomes") == 2 * count("fetches", "NOT is_cluster_metadata") > 0
    far = count("requests", "client_id = 'broker-12-fetcher-0' AND api_name = 'FETCH'")
    assert count("sooner_outcomes", "variant = 'sooner' AND is_slow") == far > 0
    for table in ("latency_summary", "latency_curves", "prediction_accuracy", "headlines"):
        assert count(table, f"rule = '{NAME}'"), table
    assert count("quality_results", f"suite = '{NAME}' AND success") == 1
    report = (warehouse / "report.html").read_text(encoding="utf-8")
    assert all(text in report for text in ("Every response 100 ms sooner", "Small waits"))
    view = python(
        installed, "-m", "kip_replay.jobs.main", "sql", "FROM sooner", "--warehouse", str(warehouse)
    )
    assert "metadata-4.0" in view
    assert "## sooner_outcomes" in python(installed, "-m", "tools.docs")


RULE = REPOSITORY / "pipelines" / "rules" / "min_isr_acks"


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("page.toml", "kip =", "kpi =", "unknown field `kpi`"),
        ("page.toml", 'role = "gain"', 'role = "win"', "'win' - at `$.headlines[0].role`"),
        ("page.toml", "proposal =", "paste =", "Expected one of `released` and `proposal`"),
        ("page.toml", "\nquery =", "\nqery =", "unknown field `qery` - at `$.show[0]`"),
        ("rule.toml", "[defaults]", "[default]", "unknown field `default`"),
        ("rule.toml", "absolute =", "absolut =", "field `absolut` - at `$.tolerances[0]`"),
        ("rule.toml", '"self_check"', '"self"', "value 'self' - at `$.tolerances[0].kind`"),
        ("rule.toml", "missing =", "missed =", "unknown field `missed` - at `$.manifest[...]`"),
        ("rule.toml", "tables = [", "table = [", "unknown field `table` - at `$.expectation[0]`"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    file, text = tmp_path / name, (RULE / name).read_text("utf-8")
    read = read_page if name == "page.toml" else partial(read_toml, schema=RuleFile)
    file.write_text(text, "utf-8")
    assert read(file)
    file.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(UserError) as error:
        read(file)
    assert str(error.value).startswith(f"{file} cannot be read: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_facts_have_their_columns() -> None:
    require_facts("toy", ["recording", "requests", "in_use", "is_mixed", "clients"])
    with pytest.raises(UserError, match="the rule toy lacks the column in_use, is_m"):
        require_facts("toy", ["recording", "requests"])
