"""The rules, for modules that they import themselves."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kip_replay.pipelines.rules.steps import RuleSteps


def rules() -> tuple[RuleSteps, ...]:
    """``pipelines.rules.RULES``, imported at the call."""
    return import_module("kip_replay.pipelines.rules").RULES  # type: ignore[no-any-return]
