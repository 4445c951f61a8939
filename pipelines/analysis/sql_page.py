"""A page of questions in Markdown: each query in a block ``sql``, its answer in a block ``text``.

The page is the only source: ``answered`` runs its queries and puts what they give into the blocks
that follow them, so a page is up to date if that changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_QUERY = re.compile(r"```sql\n(?P<query>.*?)\n```\n(\n```text\n.*?\n```\n)?", re.DOTALL)


def queries(page: str) -> list[str]:
    """The queries of a page, in order."""
    return [match["query"] for match in _QUERY.finditer(page)]


def answered(page: str, answer: Callable[[str], Sequence[str]]) -> str:
    """The page with the lines that ``answer`` gives for each query beneath it."""

    def with_answer(match: re.Match[str]) -> str:
        lines = "\n".join(answer(match["query"]))
        return f"```sql\n{match['query']}\n```\n\n```text\n{lines}\n```\n"

    return _QUERY.sub(with_answer, page)
