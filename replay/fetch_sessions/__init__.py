"""Fetch sessions (KIP-227): what a client and a broker need not repeat to each other.

One concept a file: what is logged (``recorded``), what both sides know of a client's partitions
(``followed``), the order of full FETCHes (``order``, ``runs``), one session's orders (``session``),
the broker's cache (``cache``), a client at a broker (``stream``), sizes (``sizes``), and one FETCH
under every protocol (``step``). ``replay.incremental_fetch`` is the rule that runs them.
"""
