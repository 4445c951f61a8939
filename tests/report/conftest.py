"""One browser for all tests of pages, and one warehouse of all samples."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import NAMES, Browser, chromium
from ran import made_once
from small_logs import REPOSITORY

from kip_replay.jobs import run
from kip_replay.pipelines.warehouse.tables import Warehouse

SAMPLES = sorted(str(path) for path in (REPOSITORY / "data" / "samples").iterdir())


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    command = chromium()
    if command is None:
        pytest.skip(f"no browser on the PATH ({', '.join(NAMES)}): apt install chromium")
    started = Browser(command, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """All samples, from raw logs to report.html, by the local engine."""

    def of_samples(path: Path) -> None:
        assert run.main([*SAMPLES, "--warehouse", str(path), "--engine", "local", "--quiet"]) == 0

    return Warehouse(made_once(tmp_path_factory, "samples", of_samples))
