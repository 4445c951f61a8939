"""One browser for all tests of pages."""

from collections.abc import Iterator

import pytest
from browser import NAMES, Browser, chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    command = chromium()
    if command is None:
        pytest.skip(f"no browser on the PATH ({', '.join(NAMES)}): apt install chromium")
    started = Browser(command, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
