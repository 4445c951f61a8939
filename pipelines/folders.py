"""Where this project's own files are."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

#: The folder of the packages: the clone, or kip_replay where it is installed.
ROOT = Path(__file__).resolve().parent.parent


def conf_dir() -> Path:
    return ROOT / "conf"


def of_rules(pattern: str) -> list[Path]:
    """Files that the rules keep in their folders of pipelines/rules, without importing a rule."""
    return sorted((ROOT / "pipelines" / "rules").glob(f"*/{pattern}"))


@cache
def rule_pages() -> Mapping[str, Mapping[str, Any]]:
    """What each rule's ``page.toml`` states, by the rule's name."""
    files = {file.parent.name: file.read_text("utf-8") for file in of_rules("page.toml")}
    return {rule: tomllib.loads(text) for rule, text in files.items()}
