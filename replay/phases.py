"""The phases of a recording: starting, steady, stopping.

Steady is from the last broker's first unfencing to the first wantShutDown, both read from the
heartbeats that controllers responded to. A broker that comes more than a minute after the others
were unfenced joins a running cluster, whose phase has begun. A log that begins or ends in the
middle of normal work has no such moment: then the log's own begin or end bounds the phase.
"""

from typing import NamedTuple

STARTING, STEADY, STOPPING = "starting", "steady", "stopping"


class SteadyPhase(NamedTuple):
    """UTC microseconds since 1970; ``until_us`` is exclusive."""

    from_us: int
    until_us: int

    @property
    def span_s(self) -> float:
        return (self.until_us - self.from_us) / 1e6

    def phase_of(self, at_us: int) -> str:
        if at_us < self.from_us:
            return STARTING
        return STEADY if at_us < self.until_us else STOPPING


#: A phase without bounds, for logs that are replayed without knowing it.
ALWAYS_STEADY = SteadyPhase(-(1 << 62), 1 << 62)
