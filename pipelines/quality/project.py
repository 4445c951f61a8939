"""The Great Expectations project of a warehouse: the folder ``gx`` in it.

``great_expectations.get_context(project_root_dir=WAREHOUSE)`` opens it. It has the data source
``warehouse``, of the recordings that were checked last, and two checkpoints: ``quality`` with what
is critical or a warning, ``information`` with what is merely worth knowing. Each has a suite and a
validation definition for a table. Its files are written here and not by its API, which writes the
whole project for each object that is added: seconds.
"""

import json
import logging
import os
import re
import shutil
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from kip_replay.pipelines.quality.suites import Expectation, Severity
from kip_replay.replay.tables import TABLES

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read when it is imported
with warnings.catch_warnings():
    # It imports modules that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore")
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.core.yaml_handler import YAMLHandler
    from great_expectations.exceptions.exceptions import GreatExpectationsError
    from great_expectations.expectations.registry import get_expectation_impl
    from great_expectations.render.view.view import DefaultJinjaPageView
    from jinja2 import ChoiceLoader, FileSystemLoader

from kip_replay.pipelines.quality.dialect import url

logging.getLogger("great_expectations").setLevel(logging.ERROR)

#: Checkpoints by name, and what they are of.
_CHECKPOINTS = {"quality": (Severity.CRITICAL, Severity.WARNING), "information": (Severity.INFO,)}
_NO_BARS: Any = {"globally": False, "metric_calculations": False}


class PageView(DefaultJinjaPageView):
    """Renders Data Docs that load nothing, by the templates here before those of the same name."""

    def __init__(self, **directories: Any) -> None:
        super().__init__(**directories)
        theirs: Any = self.env.loader
        self.env.loader = ChoiceLoader([FileSystemLoader(Path(__file__).parent), theirs])


def write_project(
    warehouse: str, recordings: Sequence[str], expectations: Sequence[Expectation]
) -> str:
    """Writes the project, validates recordings and renders Data Docs, whose first page it returns.

    What others have added to the project stays.
    """
    folder = Path(warehouse) / "gx"
    for generated in ("validations", "data_docs"):
        shutil.rmtree(folder / "uncommitted" / generated, ignore_errors=True)
    _write_config(folder, recordings, {each.table for each in expectations})
    checkpoints = {
        name: [each for each in expectations if each.severity in severities]
        for name, severities in _CHECKPOINTS.items()
    }
    for name, its in checkpoints.items():
        _write_checkpoint(folder, name, its)
    context = gx.get_context(mode="file", context_root_dir=folder)
    for name, its in checkpoints.items():
        if its:
            context.checkpoints.get(name).run(run_id=RunIdentifier(run_name=_run_name(recordings)))
    context.build_data_docs()
    _close(context)
    return str(folder / "uncommitted" / "data_docs" / "local_site" / "index.html")


def failing_rows(
    warehouse: str, recordings: Sequence[str], expectations: Sequence[Expectation], kept_rows: int
) -> dict[tuple[str, Expectation], tuple[int, list[dict[str, Any]]]]:
    """Counts the rows of each recording that fail expectations, and keeps the first.

    For those that this program does not count itself. One that is not of rows counts once. Raises
    UserError for an expectation that Great Expectations does not have.
    """
    result_format = {"result_format": "COMPLETE", "partial_unexpected_count": kept_rows}
    found = {}
    for name in recordings:
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = _NO_BARS
        source = context.data_sources.add_sql(
            name="warehouse", connection_string=url([name], warehouse), create_temp_table=False
        )
        for number, each in enumerate(expectations):
            asset = source.add_table_asset(str(number), each.table)
            batch = asset.add_batch_definition_whole_table("recording").get_batch()
            keys = {"unexpected_index_column_names": [*TABLES[each.table].key]}
            try:
                expected = get_expectation_impl(each.type)(**each.arguments)
                validated = batch.validate(expected, result_format=result_format | keys)
            except (ValueError, TypeError, GreatExpectationsError) as error:
                raise each.error(error) from error
            # Of the expectation, or of each of its metrics.
            for info in (validated.exception_info, *validated.exception_info.values()):
                if isinstance(info, dict) and info.get("raised_exception"):
                    raise each.error(info["exception_message"])
            count, first = _failing(validated)
            if count:
                found[name, each] = count, first[:kept_rows]
        _close(context)
    return found


def _failing(validated: Any) -> tuple[int, list[dict[str, Any]]]:
    """Failing rows; there are none, and no success, where no row meets a condition."""
    result = validated.result
    if validated.success:
        return 0, []
    if "unexpected_count" not in result:
        return 1, [{"observed_value": result.get("observed_value")}]
    return result["unexpected_count"] or 0, result.get("unexpected_index_list") or []


def _write_config(folder: Path, recordings: Sequence[str], tables: Collection[str]) -> None:
    assets = {
        table: {"type": "table", "id": _id("asset", table), "table_name": table}
        | {"batch_definitions": {"recordings": {"id": _id("batch", table), "partitioner": None}}}
        for table in sorted(tables)
    }
    source: dict[str, Any] = {"type": "sql", "id": _id("source"), "assets": assets}
    source |= {"connection_string": url(recordings), "create_temp_table": False}
    view = {"module_name": __name__, "class_name": PageView.__name__}
    file = folder / "great_expectations.yml"
    if not file.exists():
        gx.get_context(mode="file", context_root_dir=folder)  # makes a project with its defaults
    config: Any = {"analytics_enabled": False, "progress_bars": _NO_BARS}
    config |= YAMLHandler().load(file.read_text())
    config["data_docs_sites"]["local_site"] |= {
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", "view": view},
        "site_section_builders": {name: {"view": view} for name in ("expectations", "validations")},
    }
    sources = {**config.get("fluent_datasources", {}), "warehouse": source}
    _write(file, {**config, "fluent_datasources": sources})


def _write_checkpoint(folder: Path, name: str, expectations: Sequence[Expectation]) -> None:
    definitions = []
    for table in sorted({each.table for each in expectations}):
        # Of the checkpoint ``quality`` they have the table's name alone.
        its = table if name == "quality" else f"{table}_{name}"
        of_table = [each for each in expectations if each.table == table]
        _write(folder / "expectations" / f"{its}.json", _suite(its, of_table))
        data = {
            "datasource": {"name": "warehouse", "id": _id("source")},
            "asset": {"name": table, "id": _id("asset", table)},
            "batch_definition": {"name": "recordings", "id": _id("batch", table)},
        }
        definition = {"name": its, "id": _id("definition", its)}
        suite = {"name": its, "id": _id("suite", its)}
        definitions.append(definition)
        file = folder / "validation_definitions" / f"{its}.json"
        _write(file, {**definition, "data": data, "suite": suite})
    checkpoint = {"name": name, "id": _id("checkpoint", name), "result_format": "SUMMARY"}
    content = {**checkpoint, "actions": [], "validation_definitions": definitions}
    _write(folder / "checkpoints" / f"{name}.json", content)


def _close(context: Any) -> None:
    source = context.data_sources.get("warehouse")
    for engine in (source.get_engine(), source.get_execution_engine().engine):
        engine.dispose()


def _suite(name: str, expectations: Sequence[Expectation]) -> dict[str, Any]:
    return {
        "name": name,
        "id": _id("suite", name),
        "expectations": [
            {
                "type": each.type,
                "id": _id(*each.place),
                "kwargs": each.arguments,
                "severity": each.severity.value,
                "description": each.description,
                "meta": dict(zip(("suite", "table", "name"), each.place, strict=True)),
            }
            for each in expectations
        ],
        "meta": {"great_expectations_version": gx.__version__},
        "notes": None,
    }


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=2))


def _id(*names: str) -> str:
    """An object's id, the same whenever it is written."""
    return str(uuid5(NAMESPACE_URL, "/".join(("kip-replay", *names))))


def _run_name(recordings: Sequence[str]) -> str:
    """The recordings as a name of a folder, which Great Expectations makes of it."""
    more = f" and {len(recordings) - 3} more" if len(recordings) > 3 else ""
    return re.sub(r"[^\w., -]", "_", ", ".join(recordings[:3]))[:150] + more
