"""Request lines out of whatever a log lies in: patterns, carriers, JSON, split lines.

A line that Kafka wrote is found by its *marker*, ``Completed request:``, and read by one grammar:

    prefix  timestamp  ...  marker  JSON object  suffix

1. The JSON object ends where it ends by itself. What is around it is not looked at, but for the
   timestamp nearest to the marker: that is Kafka's, others are of carriers (``stamps``, ``text``).
2. A wrapper is recognised by how it escapes the quotation mark behind the marker: ``{\\"`` is a
   string of JSON (unwrapped, up to twice), ``{""`` a field of CSV (``wrappers``).
3. A line that a carrier has split ends within its JSON object. What follows in the same stream
   without a marker continues it, until the object is whole (``reader``).

What comes out is the line in Kafka's default layout, the same however it was read. How a file is
laid out is learned from its first request, and again from any that does not fit.
"""

from .reader import WHOLE_LINES, Framing, LineReader, Lines, LongLine, NodeBy

__all__ = ["WHOLE_LINES", "Framing", "LineReader", "Lines", "LongLine", "NodeBy"]
