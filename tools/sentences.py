"""Finds sentences of the page without a population: ``python -m tools.sentences``.

CONTRIBUTING.md lists each template with the query of its figures and the rows that these are of.
"""

import re
import sys
import tomllib
from pathlib import Path

from kip_replay.pipelines.rule_files import rule_headlines, rule_pages


def templates() -> set[str]:
    """Returns the names of all templates, each behind its section or rule."""
    shared = tomllib.loads(Path("pipelines/report/overview.toml").read_text("utf-8"))
    names = {f"{part}/{name}" for part in ("findings", "reasons") for name in shared[part]}
    for rule, page in rule_pages().items():
        own = [*page["reasons"], *(headline["name"] for headline in rule_headlines(rule))]
        names |= {f"{rule}/{name}" for name in own}
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
