"""How long the stages of a run take, and what they write: as measured, for estimates."""

from collections.abc import Mapping, Sequence

#: Seconds of a stage on two cores: of any run, and of each MB (10^6 bytes of uncompressed log). See
#: docs/performance.md. ``replay`` is of all rules, with the local engine.
STAGES: Mapping[str, tuple[float, float]] = {
    "survey": (0.1, 0.005),
    "read logs": (0.2, 0.04),
    "replay": (1.0, 0.25),
    "summarize": (1.2, 0.05),
    "check": (1.2, 0.04),
    "report": (1.1, 0.03),
}
#: Of the warehouse, for each byte of uncompressed log: no recording has needed more.
_TABLE_BYTES = 0.5
#: The same machine parses a line of so many bytes in ``_LINE_S`` + bytes * ``_BYTE_S``.
_LINE_S, _BYTE_S = 1.1e-5, 9.5e-9
_TIMED_BYTES_MIN = 4 << 20


def expected_s(log_bytes: int, rules: Sequence[str]) -> dict[str, float]:
    """Seconds of each stage of a run, as ``progress`` names them, the rules in equal parts."""
    expected: dict[str, float] = {}
    for name, (fixed, slope) in STAGES.items():
        seconds = fixed + slope * log_bytes / 1e6
        named = [f"replay {rule}" for rule in rules] if name == "replay" else [name]
        expected |= dict.fromkeys(named, seconds / max(len(named), 1))
    return expected


def expected_bytes(log_bytes: int) -> int:
    """What the tables of such logs take on disk, at most."""
    return int(_TABLE_BYTES * log_bytes)


def machine_scale(parsed: Sequence[tuple[int, int, float]]) -> float:
    """How much longer this machine takes than that of ``STAGES``, by lines, bytes, and seconds.

    1 where so little was parsed that it tells nothing.
    """
    lines, size, seconds = map(sum, zip(*parsed, strict=True)) if parsed else (0, 0, 0.0)
    if size < _TIMED_BYTES_MIN:
        return 1.0
    return min(max(seconds / (_LINE_S * lines + _BYTE_S * size), 0.5), 4.0)
