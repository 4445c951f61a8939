"""Finds sentences of the page without a population: ``python -m tools.sentences``.

CONTRIBUTING.md lists each template with the query of its figures and the rows that these are of.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def templates() -> set[str]:
    """Returns the names of all templates, each behind its section or rule."""
    shared = _read(Path("pipelines/report/overview.toml"))
    names = {f"{part}/{name}" for part in ("findings", "reasons") for name in shared[part]}
    for file in Path("pipelines/rules").glob("*/page.toml"):
        page = _read(file)
        headlines = [each for row in page["headlines"] for each in (row, *row.get("else", ()))]
        own = [*page["reasons"], *(row["name"] for row in headlines)]
        names |= {f"{file.parent.name}/{name}" for name in own}
    return names


if __name__ == "__main__":
    section = Path("CONTRIBUTING.md").read_text("utf-8").partition("\n## Sentences\n")[2]
    rows = re.findall(
        r"^\| (`.+`) \| (.+) \| (.+) \|$", section.partition("\n## ")[0], re.MULTILINE
    )
    listed = {name for names, *_ in rows for name in re.findall(r"`(.+?)`", names)}
    wrong = [f"{name}: not in CONTRIBUTING.md, Sentences" for name in templates() - listed]
    wrong += [f"{name}: in CONTRIBUTING.md, and no template" for name in listed - templates()]
    sys.exit("\n".join(sorted(wrong)) or 0)
