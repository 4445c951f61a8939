"""Estimates how long the stages of a run take, and what they write, by measured rates."""

from collections.abc import Mapping

#: Seconds of a stage on two cores: of any run, and of each MB (10^6 bytes of uncompressed log).
#: Fitted to runs of 5 to 95 MB with the local engine, on a machine that had other work beside; of
#: the CPU time, what the main thread does not take counts half. ``replay`` is of all rules.
STAGES: Mapping[str, tuple[float, float]] = {
    "survey": (0.1, 0.002),
    "read logs": (0.3, 0.018),
    "replay": (1.2, 0.1),
    "summarize": (1.2, 0.018),
    "check": (1.0, 0.013),
    "decide": (0.3, 0.002),
    "report": (1.1, 0.015),
}
#: Of the tables on disk, for each byte of uncompressed log: no recording has needed more.
TABLE_BYTES = 0.5
#: The same machine parses a byte of a line in this many seconds.
_BYTE_S = 2.3e-8
_TIMED_BYTES_MIN = 4 << 20


def expected_s(log_bytes: int) -> dict[str, float]:
    """Seconds of each stage of a run, as ``progress`` names them."""
    return {name: fixed + slope * log_bytes / 1e6 for name, (fixed, slope) in STAGES.items()}


def machine_scale(size: int, seconds: float) -> float:
    """Measures how much longer this machine takes than that of ``STAGES``, by parsed bytes.

    1 where so little was parsed that it tells nothing.
    """
    if size < _TIMED_BYTES_MIN:
        return 1.0
    return min(max(seconds / (_BYTE_S * size), 0.5), 4.0)
