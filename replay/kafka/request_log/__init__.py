"""Kafka's request log (``kafka.request.logger`` at DEBUG): bytes of lines in, Arrow out.

``LineParser`` is the way in, ``PARSED_LINE`` what comes out. Pure: no files, no clock.
"""

from .anonymous import Anonymous
from .fold import FoldBoundary, fold_boundary
from .line import stamp_of
from .local_time import LocalTime, has_ambiguous_hour
from .parsed_line import PARSED_LINE
from .parser import LineParser
from .pseudonyms import Pseudonyms
from .reasons import Reason

__all__ = [
    "PARSED_LINE",
    "Anonymous",
    "FoldBoundary",
    "LineParser",
    "LocalTime",
    "Pseudonyms",
    "Reason",
    "fold_boundary",
    "has_ambiguous_hour",
    "stamp_of",
]
