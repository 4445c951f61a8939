"""incremental_fetch as first written: the readable engine, partition by partition in Python.

The production engine (``replay.incremental_fetch``) does the same in vectors and has to hand out
the same rows. This one takes every row apart into named tuples and follows dicts and sets, so that
each step can be read beside KIP-227 and Kafka's ``FetchSessionHandler`` and ``FetchSession``; it
shares the session cache, schemas and wire sizes with production, and nothing of what follows
partitions.
"""

from .replay import IncrementalFetch, Outcomes, replayed

__all__ = ["IncrementalFetch", "Outcomes", "replayed"]
