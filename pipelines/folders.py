"""Finds this project's own files."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kip_replay.pipelines.rule_files import RuleFile, read_page, read_toml

#: The folder of the packages: the clone, or kip_replay where it is installed.
ROOT = Path(__file__).resolve().parent.parent
#: A folder for each rule, and the errors of all, which ``make docs`` prints.
RULES_FOLDER = ROOT / "pipelines" / "rules"
RULES_ERRORS = RULES_FOLDER / "errors.toml"


def conf_dir() -> Path:
    return ROOT / "conf"


def of_rules(pattern: str) -> list[Path]:
    """Files that the rules keep in their folders of pipelines/rules, without importing a rule."""
    return sorted(RULES_FOLDER.glob(f"*/{pattern}"))


@cache
def rule_files() -> Mapping[str, RuleFile]:
    """Reads each rule's ``rule.toml``, by the rule's name."""
    return {file.parent.name: read_toml(file, RuleFile) for file in of_rules("rule.toml")}


@cache
def rule_pages() -> Mapping[str, Mapping[str, Any]]:
    """Reads each rule's ``page.toml``, by the rule's name."""
    return {file.parent.name: read_page(file) for file in of_rules("page.toml")}


def rule_headlines(rule: str) -> list[Mapping[str, Any]]:
    """The figures that a rule's ``page.toml`` states, each with its ``place``; behind it, with a
    higher ``choice``, those that stand in for it where it is not known, or of few values."""
    return [
        {**each, **other, "place": place, "choice": choice}
        for place, each in enumerate(rule_pages()[rule]["headlines"])
        for choice, other in enumerate(({}, *each.get("else", ())))
    ]
