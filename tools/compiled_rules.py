"""Compiles what rules compile when they are first used, so that set-up pays and no run does.

``python -m tools.compiled_rules``: numba keeps the machine code beside the modules. Where it
was never run, the first replay on a machine takes half a minute longer.
"""

from __future__ import annotations

import pyarrow as pa

from kip_replay.replay.rule import Settings
from kip_replay.replay.rules import RULES


def compile_rules() -> None:
    """Replays nothing, under every rule."""
    recording = "nothing"
    settings = Settings(voters={recording: (1,)})
    for rule in RULES.values():
        replay = rule.start(settings, {"recording": recording, "node_id": 1}, None)
        replay.feed(pa.RecordBatch.from_pylist([], schema=rule.input_schema))
        replay.saved()
        replay.finish()


if __name__ == "__main__":
    compile_rules()
