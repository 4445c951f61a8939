"""Defines what outcomes of all rules share: variant, verdict, advice."""

from enum import StrEnum
from typing import NamedTuple

#: Columns that say which rule, variant and parameter a row is of.
WHAT_IF = ("rule", "variant", "parameter", "parameter_value")
#: Variant of what the log itself shows.
RECORDED = "recorded"
#: Value of the parameter ``none``.
NOT_SWEPT = -1


class Verdict(StrEnum):
    """Tells apart outcomes that were decided or not; ``UNKNOWN`` always has a reason.

    ``BOUNDED``: all but its bytes, which lie between two bounds.
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
