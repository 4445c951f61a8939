"""lowest_acked_offset event by event: the engine that the one in ``replay`` is held against.

One heap of events, one event after the other, plain Python values throughout: slow, and as near to
the rule's words as code can be. It shares with the fast one the form of the input and of the rows
(``replay.lowest_acked_offset.events``, ``replay.schema``), and nothing of how they follow from each
other. Its theory of operation is that of ``replay.lowest_acked_offset``.
"""

from oracles.lowest_acked_offset.replay import LowestAckedOffset

__all__ = ["LowestAckedOffset"]
