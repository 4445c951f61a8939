"""Kafka's request log (``kafka.request.logger`` at DEBUG): bytes of lines in, Arrow out.

``LineParser`` is the way in, ``Rows`` of ``LINE_TABLES`` come out. Pure: no files, no clock.
"""

from .frequent import Rows as Rows
from .line import RejectReason as RejectReason
from .line import stamp_of as stamp_of
from .local_time import FoldBoundary as FoldBoundary
from .local_time import LocalTime as LocalTime
from .local_time import fold_boundary as fold_boundary
from .local_time import has_ambiguous_hour as has_ambiguous_hour
from .parser import LineParser as LineParser
