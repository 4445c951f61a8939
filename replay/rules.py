"""The rules by name: packages beside this module that have a ``RULE``."""

from importlib import import_module
from pkgutil import iter_modules

from kip_replay import replay
from kip_replay.replay.rule import Rule


def _rules() -> dict[str, Rule]:
    names = sorted(module.name for module in iter_modules(replay.__path__) if module.ispkg)
    packages = [import_module(f"{replay.__name__}.{name}") for name in names]
    return {package.RULE.name: package.RULE for package in packages if hasattr(package, "RULE")}


RULES: dict[str, Rule] = _rules()
