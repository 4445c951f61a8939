"""How long the stages of a run take, and what they write: as measured, for estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Seconds of a stage on two cores: of any run, and of each MB (10^6 bytes of uncompressed log). See
#: docs/performance.md. ``replay`` is of all rules.
STAGES: Mapping[str, tuple[float, float]] = {
    "survey": (0.1, 0.005),
    "read logs": (0.3, 0.04),
    "replay": (12.5, 0.11),
    "summarize": (4.3, 0.036),
    "check": (5.7, 0.034),
    "report": (0.7, 0.0),
}
#: Of the warehouse, for each byte of uncompressed log: no recording has needed more.
_TABLE_BYTES = 0.3


def expected_s(log_bytes: int, rules: Sequence[str]) -> dict[str, float]:
    """Seconds of each stage of a run, as ``progress`` names them, the rules in equal parts."""
    whole = {name: fixed + slope * log_bytes / 1e6 for name, (fixed, slope) in STAGES.items()}
    of_rule = whole["replay"] / max(len(rules), 1)
    expected: dict[str, float] = {}
    for name, seconds in whole.items():
        if name == "replay":
            expected |= {f"replay {rule}": of_rule for rule in rules}
        else:
            expected[name] = seconds
    return expected


def expected_bytes(log_bytes: int) -> int:
    """What the tables of such logs take on disk, at most."""
    return int(_TABLE_BYTES * log_bytes)
