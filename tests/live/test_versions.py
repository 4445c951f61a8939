"""The long form: every version, judged. LIVE_FOLDER keeps its recordings, and goes on with them."""

import os
from pathlib import Path

import pandas as pd
import pytest

from live import upgrade, versions

#: Beyond it are few: a machine that stands still for a moment is no fault of a prediction.
_WITHIN_MIN = 0.8
#: So few figures whose noise is within their tolerance judge nothing.
_JUDGED_MIN = 10


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = os.environ.get("LIVE_FOLDER") or tmp_path_factory.mktemp("live")
    return versions.main([str(folder)])


@pytest.mark.timeout(3 * 3600)
def test_what_is_exact_is_exact_on_every_version(judged: pd.DataFrame) -> None:
    exact = judged[
        (judged.kind == "bound")
        | ((judged.rule == "incremental_fetch") & (judged.kind == "self_check"))
    ]
    assert set(exact.version) == set(versions.VERSIONS)
    assert exact.passed.all(), exact[~exact.passed].to_string()


@pytest.mark.parametrize("rule", ["hwm_parking", "incremental_fetch", "min_isr_acks"])
def test_predictions_are_within_tolerance(judged: pd.DataFrame, rule: str) -> None:
    of_rule = judged[(judged.rule == rule) & (judged.kind == "other_cluster") & judged.is_enough]
    quiet = of_rule[of_rule.is_quiet]
    if len(quiet) < _JUDGED_MIN:
        pytest.skip(f"{rule}: not judged on this machine, {len(of_rule)} figures")
    assert quiet.passed.mean() >= _WITHIN_MIN, quiet[~quiet.passed].to_string()


@pytest.mark.timeout(1800)
def test_an_upgrade_does_what_was_predicted(tmp_path: Path) -> None:
    compared = upgrade.main([str(tmp_path)])
    print(compared)
    assert "hwm_parking" in compared
    assert (tmp_path / "report.html").stat().st_size > 100_000
