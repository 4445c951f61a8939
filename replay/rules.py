"""The rules by name: packages beside this module, whose ``registration`` has a ``RULE``."""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from kip_replay import replay
from kip_replay.replay.rule import Rule


def _registered() -> dict[str, Rule]:
    packages = sorted(each.name for each in iter_modules(replay.__path__) if each.ispkg)
    modules = (f"{replay.__name__}.{package}.registration" for package in packages)
    found = (import_module(module).RULE for module in modules if find_spec(module))
    return {rule.name: rule for rule in found}


RULES: dict[str, Rule] = _registered()
