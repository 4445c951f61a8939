"""Shows what a command is at: on a terminal a bar of tqdm for each stage.

Nothing is shown unless a command is entered as ``shown``, nor of a stage that is over in a second.
In a log, the lines that commands print say how far they are.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

_stream: TextIO | None = None
_bar: Any = None


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
    """Names what of the stage runs now."""
    if _bar is not None:
        _bar.set_postfix_str(names)


def aside() -> AbstractContextManager[None]:
    """Where there is a bar, what is printed is beside it."""
    return nullcontext() if _bar is None else _bar.external_write_mode()


def _end() -> None:
    global _bar
    if _bar is not None:
        _bar.close()
        _bar = None
