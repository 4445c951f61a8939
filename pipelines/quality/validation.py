"""Great Expectations' part: judge what was found, and write Data Docs.

A suite is a suite of Great Expectations, an expectation one of ``ExpectNoFailingRows``, and all
suites are validated by one checkpoint, once for each recording. What it validates is a batch of
findings: a row for each expectation with how many rows failed and which. The counting was Spark's,
in one job for all recordings; a validation for each of them in Spark would take a minute of jobs.

Everything happens in memory, in an ephemeral context: nothing is written but the pages, nothing is
read but the batch, nothing is sent. Great Expectations puts failing values into its pages without
escaping, and has the pages fetch styles and scripts from the network. So values go in escaped
(``_html``), and ``data_docs`` mends the pages. What it says of an expectation it escapes itself.
"""

from __future__ import annotations

import html
import logging
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd  # type: ignore[import-untyped]

from kip_replay.pipelines.quality.data_docs import run_name
from kip_replay.pipelines.quality.failing_rows import Finding
from kip_replay.pipelines.quality.suites import Expectation

with warnings.catch_warnings():
    # It imports modules that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore")
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.data_context.ephemeral_data_context import (
        EphemeralDataContext,
    )
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )
    from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.metadata_types import FailureSeverity
    from great_expectations.expectations.metrics.metric_provider import metric_value
    from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
    from great_expectations.render.components import (
        LegacyRendererType,
        RenderedStringTemplateContent,
    )
    from great_expectations.render.renderer.renderer import renderer

logging.getLogger("great_expectations").setLevel(logging.ERROR)

_SITE = "local"


@dataclass(frozen=True)
class Result:
    """What an expectation came to in a recording."""

    finding: Finding
    success: bool

    @property
    def observed(self) -> str:
        """In words: so many of so many rows."""
        return f"{self.finding.failing_rows} failing, {self.finding.rows_checked} in the table"


class FindingMetric(TableMetricProvider):
    """The row of the batch that an expectation is about."""

    metric_name = "finding"
    value_keys = ("number",)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> dict[str, Any]:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, "table")
        chosen = frame[frame["number"] == metric_value_kwargs["number"]]
        return dict(chosen.to_dict("records")[0])


class ExpectNoFailingRows(BatchExpectation):
    """Expect that no row failed.

    ``number`` is the expectation's place in the batch; the rest is for readers of Data Docs.
    """

    number: int
    told: str
    where: str
    sql: str

    metric_dependencies: ClassVar[tuple[str, ...]] = ("finding",)
    success_keys: ClassVar[tuple[str, ...]] = ("number",)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        found = metrics["finding"]
        failing, checked = int(found["failing_rows"]), int(found["rows_checked"])
        return {
            "success": failing == 0,
            "result": {
                "observed_value": f"{failing} failing rows, {checked} in the table",
                "element_count": checked,
                "unexpected_count": failing,
                # Failing rows may be connections, files or what is not there: no part of a table.
                "unexpected_percent": 100.0 * min(failing, checked) / checked if checked else 100.0,
                "partial_unexpected_list": [_html(row) for row in found["kept"]],
            },
        }

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[RenderedStringTemplateContent]:
        """What Data Docs say of an expectation."""
        kwargs = (configuration or result.expectation_config).kwargs
        severity = (configuration or result.expectation_config).severity
        return [
            RenderedStringTemplateContent(
                content_block_type="string_template",
                string_template={
                    "template": "$told ($where, $severity) $sql",
                    "params": {
                        "told": kwargs["told"],
                        "where": kwargs["where"],
                        "severity": getattr(severity, "value", severity),
                        "sql": kwargs["sql"],
                    },
                    "styling": {"params": {"sql": {"tag": "pre"}}},
                },
            )
        ]

    @classmethod
    @renderer(renderer_type="renderer.diagnostic.unexpected_statement")
    def _diagnostic_unexpected_statement_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[Any]:
        """Nothing beside the observed value: a percentage of failing connections misleads."""
        return []


def validate(findings: Sequence[Finding], docs: Path | None) -> list[Result]:
    """Judges findings; writes the pages under ``docs``, a folder that is not there yet.

    The pages lie at ``validations/<suite>/<slug of the recording>/<time>/*.html``.
    """
    context = _context(docs)
    expectations = list(dict.fromkeys(finding.expectation for finding in findings))
    numbers = {expectation: number for number, expectation in enumerate(expectations)}
    checkpoint = _checkpoint(context, numbers)
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        found[finding.recording].append(finding)
    success: dict[tuple[str, int], bool] = {}
    for place, (recording, rows) in enumerate(found.items()):
        ran = checkpoint.run(
            batch_parameters={"dataframe": _batch(rows, numbers)},
            run_id=RunIdentifier(run_name=run_name(place)),
        )
        for validated in ran.run_results.values():
            for each in validated.results:
                success[recording, each.expectation_config.kwargs["number"]] = bool(each.success)
    if docs is not None:
        context.build_data_docs()
    return [Result(each, success[each.recording, numbers[each.expectation]]) for each in findings]


def _context(docs: Path | None) -> EphemeralDataContext:
    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(docs),
        },
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", "show_cta_footer": False},
    }
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
        data_docs_sites={_SITE: site} if docs is not None else {},
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _checkpoint(context: EphemeralDataContext, numbers: Mapping[Expectation, int]) -> Any:
    """A checkpoint of a validation definition for each suite."""
    asset = context.data_sources.add_pandas("warehouse").add_dataframe_asset("findings")
    batch = asset.add_batch_definition_whole_dataframe("recording")
    of_suite: dict[str, list[BatchExpectation]] = defaultdict(list)
    for each, number in numbers.items():
        of_suite[each.suite].append(
            ExpectNoFailingRows(
                number=number,
                severity=FailureSeverity(each.severity.value),
                told=f"{each.name}: {each.says}",
                where=f"{each.table.name}.{each.column}" if each.column else each.table.name,
                sql=each.sql,
            )
        )
    definitions = [
        context.validation_definitions.add(
            gx.ValidationDefinition(
                name=name,
                data=batch,
                suite=context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations)),
            )
        )
        for name, expectations in of_suite.items()
    ]
    checkpoint = gx.Checkpoint(name="warehouse", validation_definitions=definitions)
    return context.checkpoints.add(checkpoint)


def _batch(findings: Sequence[Finding], numbers: Mapping[Expectation, int]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "number": [numbers[each.expectation] for each in findings],
            "failing_rows": [each.failing_rows for each in findings],
            "rows_checked": [each.rows_checked for each in findings],
            "kept": [list(each.kept) for each in findings],
        }
    )


def _html(text: str) -> str:
    """Text that neither HTML nor Great Expectations' templates ($name) take for their own."""
    return html.escape(text).replace("$", "&#36;")
