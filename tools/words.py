"""Finds words and names that the project does not use: ``python -m tools.words``.

A request is *requested*, a response *returned*, what a log has *recorded*, what it lacks a *gap*. A
name is a noun of the field, which ``of`` or ``found`` are not; a class has one of its own; a
docstring begins with what the thing is or does.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from pathlib import Path

#: By word, what to say instead.
_WORDS = {
    r"holes?": "gap",
    r"settl(?:e[sd]?|ing)": "warm up, finalize",
    r"doubt\w*|believ\w+": "unknown, uncertain",
    r"told|asked|said|(?<!be )answered": "returned, requested, recorded, stated",
    r"stands?(?! for| in for| out)|stood": "is",
    r"(?<!/)beats?(?!/)|seats?|knees?": "heartbeats, replica_index, elbow",
    r"handed out|in the place of|so many": "emitted, instead of, this many",
}
_ANY = re.compile("|".join(rf"(?<![A-Za-z])(?:{word})(?![a-z])" for word in _WORDS), re.IGNORECASE)
_OTHERS = (".png", ".ipynb", ".json")
_NAMES = {"of", "found", "each", "given", "one", "held", "shown"}
_BEGINNINGS = ("Takes ", "What ", "Of ", "Who ")


def _words(files: Iterable[str]) -> Iterator[str]:
    for file in files:
        for number, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1):
            yield from (f"{file}:{number}: {word[0]}" for word in _ANY.finditer(line))


def _names(files: Iterable[str]) -> Iterator[str]:
    """Yields names that are no nouns, classes of one name, and docstrings without a subject."""
    classes: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
            place = f"{file}:{getattr(node, 'lineno', 1)}"
            match node:
                case (
                    ast.Name(id=name, ctx=ast.Store())
                    | ast.Attribute(attr=name, ctx=ast.Store())
                    | ast.arg(arg=name)
                    | ast.FunctionDef(name=name)
                    | ast.ClassDef(name=name)
                ) if name.strip("_") in _NAMES:
                    yield f"{place}: the name {name}"
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(place)
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if text.startswith(_BEGINNINGS):
                    yield f"{place}: a docstring that begins with {text.split()[0]}"
    yield from (f"{p[0]}: class {name} is also {p[1]}" for name, p in classes.items() if p[1:])


if __name__ == "__main__":
    config = ConfigParser()
    config.read("setup.cfg")
    section = {name: value.split() for name, value in config["words"].items()}
    command = ["git", "ls-files", *section["folders"]]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    files = [
        file
        for file in listed
        if not file.startswith(tuple(section["but"])) and "/uplot/" not in file
        if not file.endswith(_OTHERS)
    ]
    wrong = [*_words(files), *_names(file for file in files if file.endswith(".py"))]
    sys.exit("\n".join([*wrong, "tools/words.py has what to say instead"]) if wrong else 0)
