"""Finds this project's own files."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kip_replay.pipelines.rule_files import read_table

#: The folder of the packages: the clone, or kip_replay where it is installed.
ROOT = Path(__file__).resolve().parent.parent


def conf_dir() -> Path:
    return ROOT / "conf"


def of_rules(pattern: str) -> list[Path]:
    """Files that the rules keep in their folders of pipelines/rules, without importing a rule."""
    return sorted((ROOT / "pipelines" / "rules").glob(f"*/{pattern}"))


@cache
def stated_by_rules(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Reads each rule's TOML file of that name, by the rule's name."""
    return {file.parent.name: read_table(file) for file in of_rules(name)}


def rule_pages() -> Mapping[str, Mapping[str, Any]]:
    """Reads each rule's ``page.toml``, by the rule's name."""
    return stated_by_rules("page.toml")


def rule_headlines(rule: str) -> list[Mapping[str, Any]]:
    """The figures that a rule's ``page.toml`` states, each with its ``place``; behind it, with a
    higher ``choice``, those that stand in for it where it is not known, or of few values."""
    return [
        {**each, **other, "place": place, "choice": choice}
        for place, each in enumerate(rule_pages()[rule]["headlines"])
        for choice, other in enumerate(({}, *each.get("else", ())))
    ]
