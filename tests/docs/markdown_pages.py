"""The pages of the documentation, and the blocks of code in them."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from recorded_logs import REPOSITORY

PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
_FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:\A|\n\n)((?: {4}.*\n|\n(?= {4}))+)")
_SHELL = (">", "|", "&&")
_JOB = re.compile(r"^(?:\.venv/bin/)?kip-replay (?=[a-z])")


def named(page: Path) -> str:
    """The page's path in the repository: what a test of it is called."""
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page: Path) -> Iterator[str]:
    """Blocks of code, fenced or indented, without their indentation."""
    text = page.read_text(encoding="utf-8")
    for _, block in _FENCED.findall(text):
        yield textwrap.dedent(block)
    for block in _INDENTED.findall(_FENCED.sub("", text)):
        yield textwrap.dedent(block)


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
