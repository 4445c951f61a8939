"""The Great Expectations project of a warehouse: the folder ``gx`` in it.

``great_expectations.get_context(project_root_dir=WAREHOUSE)`` opens it. Its data source ``results``
has how many rows of each recording failed when they were checked last: a file for each suite, in it
a row for each recording and a column for each expectation, which is met where there is 0. The
checkpoint ``quality`` is of all suites.
"""

import logging
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from msgspec import structs

from kip_replay.pipelines.quality.step import QualityOutcome, Result

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read when it is imported
with warnings.catch_warnings():
    # It imports modules that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore")
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.expectations.core.expect_column_values_to_be_in_set import (
        ExpectColumnValuesToBeInSet,
    )
    from great_expectations.expectations.metadata_types import FailureSeverity
    from great_expectations.render.view.view import DefaultJinjaPageView
    from jinja2 import ChoiceLoader, FileSystemLoader

logging.getLogger("great_expectations").setLevel(logging.ERROR)

_RECORDINGS_NAMED_MAX = 3


class PageView(DefaultJinjaPageView):
    """Renders Data Docs that load nothing, by the templates here before those of the same name."""

    def __init__(self, **directories: Any) -> None:
        super().__init__(**directories)
        theirs: Any = self.env.loader
        self.env.loader = ChoiceLoader([FileSystemLoader(Path(__file__).parent), theirs])


def write_project(outcome: QualityOutcome) -> str:
    """Writes the project, validates the results and renders Data Docs, whose first page it returns.

    What others have added to the project stays.
    """
    folder = Path(outcome.warehouse) / "gx"
    for generated in ("results", "uncommitted/validations", "uncommitted/data_docs"):
        shutil.rmtree(folder / generated, ignore_errors=True)
    (folder / "results").mkdir(parents=True)
    context = gx.get_context(mode="file", context_root_dir=folder)
    _configure(context)
    source = context.data_sources.add_or_update_pandas_filesystem(
        name="results", base_directory=folder / "results"
    )
    definitions = []
    for suite, rows in _failing_rows(outcome.results).groupby("suite"):
        counts = rows.pivot(index="recording", columns="column", values="failing_rows")
        counts.to_csv(folder / "results" / f"{suite}.csv")
        batch = source.add_csv_asset(suite).add_batch_definition_path("recordings", f"{suite}.csv")
        expected = context.suites.add_or_update(_suite(suite, rows))
        definition = gx.ValidationDefinition(name=suite, data=batch, suite=expected)
        definitions.append(context.validation_definitions.add_or_update(definition))
    checkpoint = gx.Checkpoint(
        name="quality",
        validation_definitions=definitions,
        result_format={
            "result_format": "COMPLETE",
            "unexpected_index_column_names": ["recording"],
        },
    )
    run = RunIdentifier(run_name=_run_name(outcome.recordings))
    context.checkpoints.add_or_update(checkpoint).run(run_id=run)
    context.build_data_docs()
    return str(folder / "uncommitted" / "data_docs" / "local_site" / "index.html")


def _configure(context: Any) -> None:
    """Has it send nothing, print no bars, and render by ``PageView``."""
    view = {"module_name": __name__, "class_name": PageView.__name__}
    context.variables.analytics_enabled = False
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    site = context.variables.data_docs_sites["local_site"] | {
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", "view": view},
        "site_section_builders": {name: {"view": view} for name in ("expectations", "validations")},
    }
    context.update_data_docs_site("local_site", site)


def _failing_rows(results: Sequence[Result]) -> pd.DataFrame:
    """Results, each with its column in the project."""
    rows = pd.DataFrame([structs.asdict(result) for result in results])
    for name in ("recording", "says"):  # which the templates do not escape
        rows[name] = rows[name].map(escape)
    rows["column"] = rows["table_name"] + ": " + rows["expectation"]
    return rows


def _suite(name: str, rows: pd.DataFrame) -> Any:
    """An expectation for each column: nothing but 0 in it."""
    expectations = [
        ExpectColumnValuesToBeInSet(
            column=row.column,
            value_set=[0],
            severity=FailureSeverity(row.severity),
            description=row.says,
        )
        for row in rows.drop_duplicates("column").itertuples()
    ]
    return gx.ExpectationSuite(name, expectations=expectations)


def _run_name(recordings: Sequence[str]) -> str:
    """The recordings as a name of a folder, which Great Expectations makes of it."""
    more = len(recordings) - _RECORDINGS_NAMED_MAX
    names = ", ".join(recordings[:_RECORDINGS_NAMED_MAX])
    return re.sub(r"[^\w., -]", "_", names)[:150] + (f" and {more} more" if more > 0 else "")
