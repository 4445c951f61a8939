"""Shows what a command is at, on a terminal a bar of tqdm for each stage, and what it took.

Nothing is shown unless a command is entered as ``shown``, nor of a stage that is over in a second.
In a log, the lines that commands print say how far they are.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any, NamedTuple, TextIO


class Part(NamedTuple):
    """A part of a phase: seconds on the clock and of this process's CPU, and rows written."""

    phase: str
    name: str
    wall_s: float
    cpu_s: float
    rows: int


#: What the clocks showed when each part began, and how many rows were written before.
_begun: list[Part] = []
_rows = 0
_stage = ""
_stream: TextIO | None = None
_bar: Any = None


@contextmanager
def displayed(stream: TextIO) -> Iterator[None]:
    """Shows the stages that begin until it is left."""
    global _stream
    _stream = stream
    try:
        yield
    finally:
        _end()
        _stream = None


def phase(name: str, is_first: bool = False) -> None:
    """A phase of a command begins, which has stages and parts."""
    if is_first:
        _begun.clear()
    stage(name)
    _begin(name, "")


def wrote(rows: int) -> None:
    global _rows
    _rows += rows


def parts() -> list[Part]:
    """Lists the parts of the command, with the time that each took until now."""
    _begin("", "")
    return [
        Part(a.phase, a.name, b.wall_s - a.wall_s, b.cpu_s - a.cpu_s, b.rows - a.rows)
        for a, b in pairwise(_begun)
    ]


def _begin(phase: str, name: str) -> None:
    _begun.append(Part(phase, name, time.monotonic(), time.process_time(), _rows))


def stage(name: str, total: int | None = None, unit: str = " tasks") -> None:
    """A stage begins, and the one before is over; ``total``: how much there is to do, if known."""
    global _bar, _stage
    _end()
    _stage = name
    if _stream is not None and _stream.isatty():
        from tqdm import tqdm  # takes longer to import than some commands last

        _bar = tqdm(
            desc=name,
            total=total,
            unit=unit,
            unit_scale=unit == "B",
            file=_stream,
            leave=False,
            dynamic_ncols=True,
            delay=1,
        )


def tasks(count: int) -> None:
    """The stage is at a number of tasks now."""
    if _bar is not None:
        _bar.reset(count)


def done(amount: int = 1) -> None:
    """Adds what of the stage is done."""
    if _bar is not None:
        _bar.update(amount)


def running(names: str) -> None:
    """Names what of the stage runs now: a part of the phase."""
    if _begun:
        _begin(_begun[-1].phase, names)
    if _bar is not None:
        _bar.set_postfix_str(names)


def at() -> str:
    """Names the stage, and what of it runs, whether that is shown or not."""
    return " ".join(filter(None, (_stage, _begun[-1].name if _begun else "")))


def aside() -> AbstractContextManager[None]:
    """Where there is a bar, what is printed is beside it."""
    return nullcontext() if _bar is None else _bar.external_write_mode()


def _end() -> None:
    global _bar
    if _bar is not None:
        _bar.close()
        _bar = None
