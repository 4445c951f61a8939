"""Lineage: a fingerprint of what rows follow from.

A step's *code* is what the modules of its own package import, computed here and not kept by hand:
a change of the report replays nothing. Not followed are the registries, which reach every rule, and
how tables are read and written, which decides no row.
"""

import ast
import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path

_ROOT = "kip_replay"
#: Where the packages are: the clone, or kip_replay where it is installed.
_FOLDER = Path(__file__).resolve().parents[2]
_REGISTRIES = ("kip_replay.replay.rules", "kip_replay.pipelines.rules")
_NOT_FOLLOWED = (
    "kip_replay.pipelines.errors",
    "kip_replay.pipelines.engines.session",
    "kip_replay.pipelines.warehouse",
)


def fingerprint(*parts: object) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@cache
def code_of(modules: tuple[str, ...], files: tuple[str, ...] = ()) -> str:
    """A hash of modules with all that they import of this project, and of other files."""
    digest = hashlib.blake2b(digest_size=16)
    for name, path in sorted(_closure(modules).items()):
        digest.update(name.encode() + b"\0" + path.read_bytes())
    for file in sorted(files):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


def _closure(modules: Iterable[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = _path_of(name)
        if name in found or path is None or _is_left_out(name):
            continue
        found[name] = path
        waiting += _imported(path, name)
    return found


def _is_left_out(name: str) -> bool:
    return name in _REGISTRIES or any(
        name == each or name.startswith(f"{each}.") for each in _NOT_FOLLOWED
    )


def _path_of(name: str) -> Path | None:
    """The file of a module or package; None for what is neither. Nothing is imported for it."""
    place = _FOLDER.joinpath(*name.split(".")[1:])
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)


@cache
def _imported(path: Path, name: str) -> list[str]:
    """Names that a module imports of this project: modules, or what may be one."""
    package, found = name if path.name == "__init__.py" else name.rpartition(".")[0], []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.startswith(_ROOT)]
        elif isinstance(node, ast.ImportFrom):
            parent = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
            base = f"{parent}.{node.module or ''}".rstrip(".") if node.level else node.module or ""
            if base.startswith(_ROOT):
                found += [base, *(f"{base}.{each.name}" for each in node.names)]
    return found


def contents(
    rows: Sequence[dict[str, object]], recordings: Collection[str]
) -> dict[str, list[str]]:
    """What was read of each recording's logs, by rows of ingested_files: content hashes, sorted."""
    return {
        name: sorted(
            {f"{r['node_id']}:{r['content_hash']}" for r in rows if r["recording"] == name}
        )
        for name in recordings
    }
