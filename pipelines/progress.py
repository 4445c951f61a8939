"""Shows what a command is at: on a terminal a bar of tqdm for each stage.

Nothing is shown unless a command is entered as ``shown``, nor of a stage that is over in a second.
In a log, the lines that commands print say how far they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from tqdm import tqdm

_stream: TextIO | None = None
_bar: "tqdm[Any] | None" = None
#: The stage, and what of it runs.
_at = ["", ""]


@contextmanager
def shown(stream: TextIO) -> Iterator[None]:
    """Shows the stages that begin until it is left."""
    global _stream
    _stream = stream
    try:
        yield
    finally:
        _end()
        _stream = None


def stage(name: str, total: int | None = None, unit: str = " tasks") -> None:
    """A stage begins, and the one before is over; ``total``: how much there is to do, if known."""
    global _bar
    _end()
    _at[:] = name, ""
    if _stream is not None:
        _bar = tqdm(
            desc=name,
            total=total,
            unit=unit,
            unit_scale=unit == "B",
            file=_stream,
            disable=None,  # where it is no terminal
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
    """Names what of the stage runs now."""
    _at[1] = names
    if _bar is not None:
        _bar.set_postfix_str(names)


def at() -> str:
    """Names the stage, and what of it runs, whether that is shown or not."""
    return " ".join(filter(None, _at))


def _end() -> None:
    global _bar
    if _bar is not None:
        _bar.close()
        _bar = None
