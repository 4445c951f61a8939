"""The Great Expectations project of a warehouse: the folder ``gx`` in it.

``great_expectations.get_context(project_root_dir=WAREHOUSE)`` opens it. It has the data source
``warehouse``, a suite and a validation definition for each table, and the checkpoint ``quality``,
of the recordings that were checked last. Its files are written here and not by its API, which
writes the whole project for each object that is added: seconds.
"""

import json
import logging
import os
import re
import shutil
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import Expectation
from kip_replay.pipelines.scratch import run_folder
from kip_replay.replay.tables import TABLES

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read when it is imported
with warnings.catch_warnings():
    # It imports modules that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore")
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.core.yaml_handler import YAMLHandler
    from great_expectations.exceptions.exceptions import GreatExpectationsError

from kip_replay.pipelines.quality.dialect import url

logging.getLogger("great_expectations").setLevel(logging.ERROR)

#: Suite, table and name of an expectation.
Place = tuple[str, str, str]
#: Of an expectation that fails in a recording: how many rows, and the first of them.
Found = tuple[int, tuple[str, ...]]


def _store(kind: str, folder: str) -> dict[str, Any]:
    backend = {"class_name": "TupleFilesystemStoreBackend", "base_directory": folder}
    return {"class_name": kind, "store_backend": backend}


#: The configuration of a project that is new.
_CONFIG = {
    "config_version": 4.0,
    "analytics_enabled": False,
    "progress_bars": {"globally": False, "metric_calculations": False},
    "expectations_store_name": "expectations_store",
    "validation_results_store_name": "validation_results_store",
    "checkpoint_store_name": "checkpoint_store",
    "stores": {
        "expectations_store": _store("ExpectationsStore", "expectations/"),
        "validation_results_store": _store("ValidationResultsStore", "uncommitted/validations/"),
        "validation_definition_store": _store(
            "ValidationDefinitionStore", "validation_definitions/"
        ),
        "checkpoint_store": _store("CheckpointStore", "checkpoints/"),
    },
    "data_docs_sites": {
        "local_site": _store("SiteBuilder", "uncommitted/data_docs/local_site/")
        | {"site_index_builder": {"class_name": "DefaultSiteIndexBuilder"}}
    },
}


def validate(
    warehouse: str, recordings: Sequence[str], expectations: Sequence[Expectation], is_kept: bool
) -> set[Place]:
    """Validates recordings and returns the expectations that fail.

    ``is_kept``: whether project and Data Docs are written to the warehouse. Raises UserError for
    an expectation that Great Expectations does not have, or whose SQL is wrong.
    """
    run_id = RunIdentifier(run_name=_run_name(recordings))
    failed = set()
    with TemporaryDirectory(prefix="quality-", dir=run_folder()) as elsewhere:
        folder = Path(warehouse) / "gx" if is_kept else Path(elsewhere)
        for generated in ("validations", "data_docs"):
            shutil.rmtree(folder / "uncommitted" / generated, ignore_errors=True)
        context = _project(folder, url(warehouse, recordings), expectations)
        for definition in _definitions(context):
            # What is met needs no values to look at: a third of the queries.
            validated = definition.run(run_id=run_id, result_format="BOOLEAN_ONLY")
            failing = {place for place, each in _places(validated) if not each.success}
            if failing and is_kept:
                definition.run(run_id=run_id, result_format="COMPLETE")
            failed |= failing
        if is_kept:
            context.build_data_docs()
        _close(context)
    return failed


def failing_rows(
    warehouse: str, recording: str, expectations: Sequence[Expectation], kept_rows: int
) -> dict[Place, Found]:
    """How many rows of a recording fail each expectation, and the first of them as JSON."""
    found = {}
    with TemporaryDirectory(prefix="quality-", dir=run_folder()) as folder:
        context = _project(Path(folder), url(warehouse, [recording]), expectations)
        for definition in _definitions(context):
            result_format = {
                "result_format": "COMPLETE",
                "partial_unexpected_count": kept_rows,
                "unexpected_index_column_names": [*TABLES[definition.name].key],
            }
            for place, each in _places(definition.run(result_format=result_format)):
                result = each.result
                if "details" in result:
                    count, rows = result["observed_value"], result["details"]["unexpected_rows"]
                else:
                    count = result["unexpected_count"]
                    # Of columns that are unique together it returns no others.
                    rows = result.get("partial_unexpected_index_list")
                    rows = result["partial_unexpected_list"] if rows is None else rows
                found[place] = (count, tuple(sorted(map(_json, rows)))[:kept_rows])
        _close(context)
    return found


def _project(folder: Path, connection: str, expectations: Sequence[Expectation]) -> Any:
    """Writes a project to a folder and opens it; what others have added to it stays."""
    suites: dict[str, list[Expectation]] = defaultdict(list)
    for each in expectations:
        suites[each.table].append(each)
    assets = {
        table: {"type": "table", "id": _id("asset", table), "table_name": table}
        | {"batch_definitions": {"recordings": {"id": _id("batch", table), "partitioner": None}}}
        for table in suites
    }
    source: dict[str, Any] = {"type": "sql", "id": _id("source"), "connection_string": connection}
    source |= {"create_temp_table": False, "assets": assets}
    file = folder / "great_expectations.yml"
    yaml = YAMLHandler()
    config: dict[str, Any] = dict(yaml.load(file.read_text())) if file.exists() else dict(_CONFIG)
    config["fluent_datasources"] = {**config.get("fluent_datasources", {}), "warehouse": source}
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(config, indent=2))
    for table, of_table in suites.items():
        _write(folder / "expectations" / f"{table}.json", _suite(table, of_table))
        data = {
            "datasource": {"name": "warehouse", "id": _id("source")},
            "asset": {"name": table, "id": _id("asset", table)},
            "batch_definition": {"name": "recordings", "id": _id("batch", table)},
        }
        definition: dict[str, Any] = {"name": table, "id": _id("definition", table), "data": data}
        definition["suite"] = {"name": table, "id": _id("suite", table)}
        _write(folder / "validation_definitions" / f"{table}.json", definition)
    definitions = [{"name": table, "id": _id("definition", table)} for table in suites]
    checkpoint: dict[str, Any] = {
        "name": "quality",
        "id": _id("checkpoint"),
        "result_format": "SUMMARY",
    }
    checkpoint |= {"actions": [], "validation_definitions": definitions}
    _write(folder / "checkpoints" / "quality.json", checkpoint)
    return gx.get_context(mode="file", context_root_dir=folder)


def _definitions(context: Any) -> list[Any]:
    """The validation definitions of the checkpoint. Raises UserError for a wrong expectation."""
    try:
        definitions: list[Any] = context.checkpoints.get("quality").validation_definitions
    except (ValueError, GreatExpectationsError) as error:
        raise UserError(
            f"a suite has an expectation that Great Expectations does not have ({_line(error)}): "
            "see docs/quality.md"
        ) from error
    return definitions


def _close(context: Any) -> None:
    """Closes the connections, which Great Expectations leaves open."""
    source = context.data_sources.get("warehouse")
    for engine in (source.get_engine(), source.get_execution_engine().engine):
        engine.dispose()


def _suite(table: str, expectations: Sequence[Expectation]) -> dict[str, Any]:
    return {
        "name": table,
        "id": _id("suite", table),
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
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=2))


def _id(*names: str) -> str:
    """An object's id, the same whenever it is written."""
    return str(uuid5(NAMESPACE_URL, "/".join(("kip-replay", *names))))


def _places(validated: Any) -> Iterator[tuple[Place, Any]]:
    """Results with the places of their expectations. Raises UserError for what has none."""
    for each in validated.results:
        meta, information = each.expectation_config.meta, each.exception_info
        place = (meta["suite"], meta["table"], meta["name"])
        for error in (information, *information.values()):
            if isinstance(error, Mapping) and error.get("raised_exception"):
                raise _error(place, str(error["exception_message"]))
        yield place, each


def _error(place: Place, message: str) -> UserError:
    suite, table, name = place
    return UserError(
        f"the expectation {name!r} of {table} in the suite {suite!r} cannot be validated "
        f"({_line(message)}): see docs/quality.md"
    )


def _line(message: object) -> str:
    """A message as one line, cut."""
    return " ".join(str(message).split())[:300]


def _run_name(recordings: Sequence[str]) -> str:
    """The recordings as a name of a folder, which Great Expectations makes of it."""
    more = f" and {len(recordings) - 3} more" if len(recordings) > 3 else ""
    return re.sub(r"[^\w., -]", "_", ", ".join(recordings[:3]))[:150] + more


def _json(row: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in row.items() if name != "recording"}
    return json.dumps(shown, default=lambda value: f"{value:%Y-%m-%dT%H:%M:%S.%fZ}")
