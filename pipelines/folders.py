"""Where this project's own files are."""

from pathlib import Path

#: The folder of the packages: the clone, or kip_replay where it is installed.
ROOT = Path(__file__).resolve().parent.parent


def conf_dir() -> Path:
    """The folder of this project's settings."""
    return ROOT / "conf"


def of_rules(pattern: str) -> list[Path]:
    """Files that the rules keep in their folders of pipelines/rules, without importing a rule."""
    return sorted((ROOT / "pipelines" / "rules").glob(f"*/{pattern}"))
