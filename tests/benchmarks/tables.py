"""Tables of Markdown."""

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> Iterable[str]:
    """The lines of a table; ``align`` has an ``l`` or an ``r`` for each column."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('--:' if a == 'r' else '---' for a in align)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
