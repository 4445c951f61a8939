"""The pages of the documentation, and the blocks of code in them."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from markdown_it import MarkdownIt
from recorded_logs import REPOSITORY

PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
_SHELL = (">", "|", "&&")
_JOB = re.compile(r"^(?:\.venv/bin/)?kip-replay (?=[a-z])")


def named(page: Path) -> str:
    """The page's path in the repository: what a test of it is called."""
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page: Path) -> Iterator[str]:
    """Blocks of code, fenced or indented, without their indentation."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            yield token.content


def commands(page: Path) -> Iterator[list[str]]:
    """The words after `kip-replay` of each command in the blocks, continued lines put together."""
    for block in blocks(page):
        open_command = ""
        for line in block.splitlines():
            if not open_command and not _JOB.match(line):
                continue
            open_command += line.removesuffix("\\") + "\n"
            try:
                words = shlex.split(open_command, comments=True)
            except ValueError:  # a quote that a later line closes
                continue
            if not line.endswith("\\"):
                yield [*takewhile(lambda word: word not in _SHELL, words)][1:]
                open_command = ""
        assert not open_command, f"{named(page)}: {open_command}"
