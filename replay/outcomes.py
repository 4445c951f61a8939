"""Defines what outcomes of all rules share: variant, verdict, advice, phase."""

from enum import StrEnum
from typing import NamedTuple

#: Name of the variant that is not replayed: what the log itself shows.
RECORDED = "recorded"
#: The fewest values of which a figure is stated.
SAMPLES_MIN = 30
#: ``parameter_value`` of variants without a sweep, whose parameter is ``none``.
NOT_SWEPT = -1


class Verdict(StrEnum):
    """Tells whether an outcome was decided; ``UNKNOWN`` always has a reason.

    ``BOUNDED``: decided, but for its bytes, of which two bounds are known.
    """

    REPLAYED = "replayed"
    BOUNDED = "bounded"
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"


class Variant(NamedTuple):
    """A protocol to replay under, and the parameter that a sweep varies."""

    name: str
    parameter: str = "none"
    parameter_value: int = NOT_SWEPT


class Advice(StrEnum):
    """Names what to do about a rule in a recording."""

    DO = "do it"
    DONT = "don't"
    IN_USE = "already in use"
    NO_RELEASE = "in no release yet"
    NOT_ENOUGH = "not enough data"
    WITHHELD = "withheld"


STARTING, STEADY, STOPPING = "starting", "steady", "stopping"


class SteadyPhase(NamedTuple):
    """A recording while it neither starts nor stops; UTC microseconds, ``until_us`` is exclusive.

    It is steady from the last broker's first unfencing to the first wantShutDown, both read from
    heartbeats that controllers responded to. A broker that comes more than a minute after the
    others does not count: the cluster was running. A log that begins or ends in the middle of
    normal work has no such moment: then its own begin or end bounds the phase.
    """

    from_us: int
    until_us: int

    def phase_of(self, at_us: int) -> str:
        if at_us < self.from_us:
            return STARTING
        return STEADY if at_us < self.until_us else STOPPING


#: A phase without bounds, for logs that are replayed without knowing it.
ALWAYS_STEADY = SteadyPhase(-(1 << 62), 1 << 62)
