"""Lineage: a fingerprint of what rows follow from.

A step's *code* is what the modules of its own package import: a change of the report replays
nothing. Not followed are the registries, which reach every rule, and engines and tables, which
decide no row.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

_ROOT = "kip_replay"
#: Where the packages are: the clone, or kip_replay where it is installed.
_FOLDER = Path(__file__).resolve().parents[2]
_REGISTRIES = ("kip_replay.replay.rules", "kip_replay.pipelines.rules")
#: What a module imports, by lines: Python's parser says the same of every module here
#: (tests/warehouse/test_lineage.py), and takes half a second for those of a run.
_IMPORT = re.compile(r"^\s*(?:import (.+)|from (\S+) import (?:\(([^)]*)\)|(.+)))$", re.MULTILINE)
_NOT_FOLLOWED = (
    "kip_replay.pipelines.errors",
    "kip_replay.pipelines.engines",
    "kip_replay.pipelines.warehouse",
)


def fingerprint(*parts: object) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@cache
def code_of(modules: tuple[str, ...], files: tuple[str, ...] = ()) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, path in sorted(_closure(modules).items()):
        digest.update(name.encode() + b"\0" + path.read_bytes())
    for file in sorted(files):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


def _closure(modules: Iterable[str]) -> dict[str, Path]:
    closure: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = _path_of(name, _FOLDER)
        if name in closure or path is None or name in _REGISTRIES or name.startswith(_NOT_FOLLOWED):
            continue
        closure[name] = path
        waiting += _imported(path, name)
    return closure


@cache
def _path_of(name: str, folder: Path) -> Path | None:
    """The file of a module or package; None for what is neither. Nothing is imported for it."""
    place = folder.joinpath(*name.split(".")[1:])
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)


@cache
def _imported(path: Path, name: str) -> list[str]:
    """Names of this project that a module imports, wherever in it."""
    package, names = name if path.name == "__init__.py" else name.rpartition(".")[0], []
    for modules, base, *parts in _IMPORT.findall(path.read_text(encoding="utf-8")):
        imported = re.findall(r"([\w.]+)(?: as \w+)?", re.sub("#.*", "", modules or "".join(parts)))
        names += imported
        if base:
            base = resolve_name(base, package)
            names += [base, *(f"{base}.{part}" for part in imported)]
    return [name for name in names if name.startswith(_ROOT)]
