"""Shows how far a command is, on stderr: a bar on a terminal, a line every ten seconds in a log.

A command is entered as a ``Progress`` and says which stages it expects, and about how long each
takes (``expect``); steps say which ``stage`` begins and how much of it is ``done``. What is left is
the rest of those estimates, corrected by how long stages have really taken. Outside, all three do
nothing.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TextIO

from tqdm import tqdm

#: Seconds between lines in a log, between looks at a bar, and before a bar appears at all.
LINE_S, LOOK_S, FIRST_LOOK_S = 10.0, 0.5, 1.0
#: Another machine can be so much faster or slower than that of the estimates.
_SCALE_MIN, _SCALE_MAX = 0.2, 5.0
_shown: "Progress | None" = None
_tasks: Callable[[], tuple[int, int]] | None = None
_running = ""


def watch(tasks: Callable[[], tuple[int, int]] | None) -> None:
    """``tasks``: how many of those that run now are done, and of how many; None: none run."""
    global _tasks
    _tasks = tasks


def expect(seconds: Mapping[str, float]) -> None:
    if _shown is not None:
        _shown.start(seconds)


def stage(name: str) -> None:
    if _shown is not None:
        _shown.begin(name)


def running(names: str) -> None:
    """Names what of the stage runs now; a new stage names nothing."""
    global _running
    _running = names


def done(done_bytes: int, of_bytes: int) -> None:
    """Adds bytes of the stage that are done; 0 leaves it to the tasks (``watch``)."""
    if _shown is not None:
        _shown.done_bytes += done_bytes
        _shown.of_bytes = of_bytes


@dataclass
class Progress:
    """Shown as long as it is entered, once stages are expected."""

    stream: TextIO
    expected: Mapping[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    done_bytes: int = 0
    of_bytes: int = 0
    _stage: str | None = None
    _began: float = 0.0
    _share: float = 0.0
    _passed: dict[str, float] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self, name: str) -> None:
        """The stage ``name`` begins; one that was not expected is not shown."""
        now = self.clock()
        if self._stage is not None:
            self._passed[self._stage] = self._passed.get(self._stage, 0.0) + now - self._began
        self._stage = name if name in self.expected else None
        self._began, self.done_bytes, self.of_bytes = now, 0, 0
        running("")

    def look(self, tasks: tuple[int, int] = (0, 0)) -> tuple[float, float, str] | None:
        """Share of all that is done, seconds left, and a text; None where no stage is at work."""
        stage, now = self._stage, self.clock()
        if stage is None:
            return None
        names = [*self.expected]
        at = names.index(stage)
        scale = self._scale()
        here_s = max(now - self._began, 1e-9)
        named = f"{stage} {_running}".rstrip()
        share, text = 0.0, named
        if tasks[1]:
            share, text = tasks[0] / tasks[1], f"{named}: {tasks[0]:,} of {tasks[1]:,} tasks"
        if self.of_bytes:
            share = self.done_bytes / self.of_bytes or share
            megabytes = share * self.of_bytes / 1e6
            text = f"{named}: {megabytes:,.0f} of {self.of_bytes / 1e6:,.0f} MB"
            text += f", {megabytes / here_s:,.1f} MB/s"
        if share and self.of_bytes:
            left_s = here_s * (1 - share) / share
        else:  # tasks of a replay are too unlike each other; past the estimate, a tenth more
            left_s = max(scale * self.expected[stage] - here_s, here_s / 10)
        gone_s = scale * sum(self.expected[name] for name in names[:at]) + here_s
        left_s += scale * sum(self.expected[name] for name in names[at + 1 :])
        # Stages that take longer than expected set nothing back.
        self._share = max(self._share, gone_s / (gone_s + left_s))
        return self._share, left_s, text

    def _scale(self) -> float:
        """Compares the time that stages took with what was expected."""
        expected_s = sum(self.expected[name] for name in self._passed)
        if not expected_s:
            return 1.0
        return min(max(sum(self._passed.values()) / expected_s, _SCALE_MIN), _SCALE_MAX)

    # --- shown by a thread of its own

    def __enter__(self) -> Self:
        global _shown
        _shown = self
        return self

    def start(self, expected: Mapping[str, float]) -> None:
        self.expected = expected
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        global _shown
        _shown = None
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        is_bar = self.stream.isatty()
        if is_bar and self._ended.wait(FIRST_LOOK_S):
            return
        form = "{percentage:3.0f}%|{bar}| {desc}"
        given: dict[str, Any] = {"leave": False, "bar_format": form, "dynamic_ncols": True}
        with tqdm(total=1.0, file=self.stream, disable=not is_bar, **given) as bar:
            while not self._ended.wait(LOOK_S if is_bar else LINE_S):
                if seen := self.look(_tasks() if _tasks else (0, 0)):
                    share, left_s, text = seen
                    left = tqdm.format_interval(left_s)
                    if is_bar:
                        bar.n = share
                        bar.set_description_str(f"{text}, {left} left")
                    else:
                        print(
                            f"{share:.0%} {text}, about {left} left", file=self.stream, flush=True
                        )
