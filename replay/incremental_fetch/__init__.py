"""incremental_fetch: how much of FETCH is repetition, and what do sessions save? (KIP-227)

Theory of operation
-------------------
A replica fetcher or a consumer asks a broker for the same partitions over and over, and most have
nothing new. KIP-227 lets both sides remember: a full FETCH starts a *session*, and the incremental
FETCHes that follow list only the partitions whose request changed; their responses list only those
that have something to say ("Fetch Session", "Incremental Fetch Requests and Responses").

A log of full FETCHes and one of incremental ones hold the same knowledge, once with all the
repetition and once without. So each FETCH of a client at a broker (a *stream*) is first brought
back to what it changes, and then replayed under every protocol:

``recorded``
    As logged.
``full``
    No sessions: every partition in every FETCH, both ways.
``incremental``
    As released: partitions that are new or whose request changed go out, dropped ones are
    forgotten; a partition is answered if it has records, another high watermark or log start
    offset, a preferred replica, an error or a diverging epoch, and after an error. Every session
    that is asked for finds a slot. With ``session_slots`` = N there are N slots (``cache``): who is
    refused sends full FETCHes and asks again each time; who was evicted has its next incremental
    FETCH answered with FETCH_SESSION_ID_NOT_FOUND (attempt 0) and repeats it in full (attempt 1).
``incremental_draft``
    Version 3 of the KIP's page, for followers: a 64-bit uuid instead of id and epoch, requests and
    responses of their own that go by topic names. It cannot take a partition out and does not say
    how one comes in: a full FETCH, whenever one comes or goes. A request lists what changed of what
    the draft's request has (offsets and maximum bytes, no epochs), a response whoever has records
    or another header than before, so an error that stays is not repeated. Consumers send full
    FETCHes, each with the 8 bytes of a uuid in its response.

What is read of a response
--------------------------
*Inputs:* of each partition the error, offsets, preferred replica, diverging epoch, records and
aborted transactions (what the broker had to say); the error, throttle time, session id and
endpoints of the whole; ``built_us``, when a session is created. *Never:* the order of partitions
in an incremental response, how many there are, and all sizes: those are what is replayed. A test
shuffles and blanks them and gets the same rows. Variant ``recorded`` and ``equals_recorded`` (lists
and bytes of the incremental variant are those recorded, request by request) read everything.

Assumptions, and where they can fail
------------------------------------
* Open loop: the FETCHes are those of the log, under any protocol. A smaller FETCH is handled
  sooner and the next one comes sooner, so rates differ; compare per FETCH, or per second with care.
* FETCHes below v7 are replayed as if their sender had been upgraded, and counted at v7. Clients
  that know sessions and ask for none (epoch -1, as librdkafka) send full FETCHes in any case.
* The first FETCH that the log has of a stream without a recorded session is its first: it is full
  and asks for one.
* After error 70 a client does without the session; the full FETCH that follows stands for the one
  that was refused (``not_applicable``) and is incremental where the session would still be there.
  After other errors, and where the log says (id, 0), every protocol starts again with a full FETCH.
* What a partition has that is not answered in a recorded incremental FETCH is what was told last.
  The last stable offset is not among what makes the broker tell (KIP-227 released), so the draft
  replayed from incremental FETCHes misses changes of the last stable offset alone.
* From incremental FETCHes, the order of the full one is followed as its client would change it
  (``order``); it decides how often a topic is named, and nothing else.
* Broker restarts are not in a FETCH log: sessions in the caches live on. Round-robin over shards
  starts at the first, and ids, drawn at random in Kafka, count up.
* A stream without a session that was silent for ``CONNECTION_IDLE_US`` is over (brokers close such
  connections), and so is one with a session after ``SESSION_IDLE_US``.
* A session that began before the log is ``unknown`` until a full FETCH of its client. Nothing in
  the log ends that sooner: a partition that stays idle is never named, so no number of incremental
  FETCHes shows that all were seen.
"""

from .recorded import INPUT_SCHEMA
from .replay import IncrementalFetch, Outcomes
from .rows import (
    EVICTION_SCHEMA,
    FULL,
    INCREMENTAL,
    INCREMENTAL_DRAFT,
    OUTCOME_SCHEMA,
    RULE,
    SESSION_SLOTS,
    ClientKind,
    variants,
)

__all__ = [
    "EVICTION_SCHEMA",
    "FULL",
    "INCREMENTAL",
    "INCREMENTAL_DRAFT",
    "INPUT_SCHEMA",
    "OUTCOME_SCHEMA",
    "RULE",
    "SESSION_SLOTS",
    "ClientKind",
    "IncrementalFetch",
    "Outcomes",
    "variants",
]
