"""Great Expectations' part: judge what was found, and render Data Docs.

A suite is a suite of Great Expectations, an expectation one of ``ExpectNoFailingRows``. Each suite
validates one batch, a row for each finding of all recordings: DuckDB has counted. All happens in
an ephemeral context, where nothing is written or sent.
"""

from __future__ import annotations

import html
import logging
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

import pandas as pd  # type: ignore[import-untyped]

from kip_replay.pipelines.quality.failing_rows import Finding, Result
from kip_replay.pipelines.quality.suites import Expectation, Severity

with warnings.catch_warnings():
    # It imports modules that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore")
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.metadata_types import FailureSeverity
    from great_expectations.render.renderer.column_section_renderer import (
        ValidationResultsColumnSectionRenderer,
    )
    from great_expectations.render.view.view import DefaultJinjaSectionView

logging.getLogger("great_expectations").setLevel(logging.ERROR)


class ExpectNoFailingRows(BatchExpectation):
    """Expect that no row failed in any recording; ``number`` is the expectation's in the batch."""

    number: int

    metric_dependencies: ClassVar[tuple[str, ...]] = ()
    success_keys: ClassVar[tuple[str, ...]] = ("number",)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        batch = execution_engine.dataframe
        checked = batch[batch["number"] == self.number]
        failed = checked[checked["failing_rows"] > 0]
        # Great Expectations escapes nothing of this.
        observed = [
            f"<b>{_html(row.recording)}</b>: {row.failing_rows} failing, {row.rows_checked} in the "
            f"table<pre>{_html(chr(10).join(row.kept))}</pre>"
            for row in failed.itertuples()
        ] or [f"0 failing, {checked['rows_checked'].sum()} in the table"]
        return {
            "success": failed.empty,
            "result": {
                "observed_value": "".join(observed),
                "details": {"failed_in": [*failed["recording"]]},
            },
        }


def validate(findings: Sequence[Finding]) -> tuple[list[Result], dict[str, str]]:
    """Judges findings; also returns each suite's section of Data Docs, failures first."""
    numbers = {
        expectation: number
        for number, expectation in enumerate(dict.fromkeys(each.expectation for each in findings))
    }
    suites: dict[str, list[BatchExpectation]] = defaultdict(list)
    for expectation, number in numbers.items():
        suites[expectation.suite].append(_expectation(number, expectation))
    batch = _batch(
        pd.DataFrame(
            {
                "number": [numbers[each.expectation] for each in findings],
                "recording": [each.recording for each in findings],
                "failing_rows": [each.failing_rows for each in findings],
                "rows_checked": [each.rows_checked for each in findings],
                "kept": [each.kept for each in findings],
            }
        )
    )
    failed, sections, view = set(), {}, DefaultJinjaSectionView()
    for name, expectations in suites.items():
        validated = batch.validate(gx.ExpectationSuite(name=name, expectations=expectations))
        validated.results.sort(key=_worst_first)
        for each in validated.results:
            number = each.expectation_config.kwargs["number"]
            failed |= {(number, recording) for recording in each.result["details"]["failed_in"]}
        section = ValidationResultsColumnSectionRenderer().render(validated.results)
        sections[name] = view.render({"section": section.to_json_dict(), "section_loop": {}})
    return [
        Result(each, (numbers[each.expectation], each.recording) not in failed) for each in findings
    ], sections


def _expectation(number: int, expectation: Expectation) -> ExpectNoFailingRows:
    column = f".{expectation.column}" if expectation.column else ""
    where = f"{expectation.table}{column}, {expectation.severity}"
    return ExpectNoFailingRows(
        number=number,
        severity=FailureSeverity(expectation.severity.value),
        description=f"<b>{_html(expectation.name)}</b>: {_html(expectation.says)} ({_html(where)})"
        f"<details><summary>SQL</summary><pre>{_html(expectation.sql)}</pre></details>",
    )


def _batch(frame: pd.DataFrame) -> Any:
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
        data_docs_sites={},
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    asset = context.data_sources.add_pandas("warehouse").add_dataframe_asset("findings")
    return asset.add_batch_definition_whole_dataframe("recordings").get_batch({"dataframe": frame})


def _worst_first(validated: Any) -> tuple[bool, int]:
    severity = Severity(validated.expectation_config.severity.value)
    return (validated.success, -[*Severity].index(severity))


def _html(text: str) -> str:
    """Text that neither HTML nor Great Expectations' templates ($name) take for their own."""
    return html.escape(text).replace("$", "&#36;")
