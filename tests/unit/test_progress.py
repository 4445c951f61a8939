"""What is shown of a long command: shares and seconds left, lines in a log, a bar on a terminal."""

import io
import time
from dataclasses import dataclass

import pytest

from kip_replay.pipelines import progress
from kip_replay.pipelines.progress import Progress

STAGES = {"read": 10.0, "replay": 20.0, "check": 10.0}


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def shown() -> Progress:
    return Progress(io.StringIO(), expected=STAGES, clock=Clock())


def at(shown: Progress, second: float) -> Progress:
    shown.clock.now = second  # type: ignore[attr-defined]
    return shown


def test_the_rest_follows_from_bytes_and_from_what_stages_have_taken(shown: Progress) -> None:
    assert shown.look() is None
    shown.begin("read")
    shown.of_bytes, shown.done_bytes = 200_000_000, 50_000_000
    share, left_s, text = at(shown, 5).look() or (0, 0, "")
    assert left_s == pytest.approx(15 + 30)  # a quarter in 5 s, and two stages as expected
    assert share == pytest.approx(5 / 50)
    assert text == "read: 50 of 200 MB, 10.0 MB/s"
    at(shown, 20).begin("replay")  # which took twice as long as expected
    share, left_s, text = at(shown, 25).look((3, 12)) or (0, 0, "")
    assert left_s == pytest.approx(2 * 20 - 5 + 2 * 10)
    assert share == pytest.approx(25 / 80)
    assert text == "replay: 3 of 12 tasks"


def test_what_takes_longer_is_never_nearly_done_for_ever(shown: Progress) -> None:
    shown.begin("check")
    for second in (9, 100, 1000):
        found = at(shown, second).look()
        assert found is not None
        assert found[0] < 1
        assert found[1] >= second / 10 or second < 10


def test_a_log_has_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_S", 0.01)
    stream = io.StringIO()
    with Progress(stream):
        progress.expect(STAGES)
        progress.stage("replay")
        until = time.monotonic() + 5
        while not stream.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "25% replay, about 00:30 left" or lines[0].endswith(" left")
    assert "\r" not in stream.getvalue()
    progress.stage("check")  # nobody looks any more
    progress.done(1, 2)
