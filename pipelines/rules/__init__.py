"""The rules over Spark: a package each, whose ``STEPS`` register it.

They are replayed in the order of ``RULES``: a rule may read the outcomes of one before it.
"""

from importlib import import_module
from pkgutil import iter_modules

from kip_replay.pipelines.analysis.summarize import SummedRule


def _registered() -> tuple[SummedRule, ...]:
    packages = sorted(module.name for module in iter_modules(__path__) if module.ispkg)
    found = [import_module(f"{__name__}.{package}").STEPS for package in packages]
    return tuple(sorted(found, key=lambda steps: (len(steps.follows), steps.name)))


RULES: tuple[SummedRule, ...] = _registered()
