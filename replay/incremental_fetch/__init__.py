"""incremental_fetch: how much of FETCH is repetition, and what do sessions save? (KIP-227)

Theory of operation
-------------------
A replica fetcher or a consumer requests the same partitions from a broker over and over, and most
have nothing new. KIP-227 lets both sides remember: a full FETCH starts a *session*, and the
incremental FETCHes that follow list only the partitions whose request changed; their responses list
only those with something new (``session`` is that rule, section by section).

A log of full FETCHes and one of incremental ones hold the same knowledge, once with all the
repetition and once without. So each FETCH of a client at a broker (``streams``) is first reduced to
what it changes (``fetch``), and then replayed under every protocol:

``recorded``
    As logged.
``full``
    No sessions: every partition in every FETCH, both ways.
``incremental``
    As ``released``, and every session that is requested finds a slot. With ``session_slots`` = N
    there are N slots (``cache``): a client that is refused sends full FETCHes and requests a
    session each time; one whose session was evicted has its next incremental FETCH refused with
    FETCH_SESSION_ID_NOT_FOUND (attempt 0) and repeats it in full (attempt 1).
``incremental_draft``
    Version 3 of the KIP's page (``draft``), for followers. It cannot take a partition out and does
    not say how one comes in: a full FETCH, whenever one comes or goes. Consumers send full FETCHes,
    each with the 8 bytes of a uuid in its response.

What is read of a response
--------------------------
*Inputs:* of each partition the error, offsets, preferred replica, diverging epoch, records and
aborted transactions; the error, throttle time, session id and endpoints of the whole; ``built_us``,
when a session is created. *Never:* the order of partitions in an incremental response, how many
there are, and all sizes: those are what is replayed. A test shuffles and blanks them and gets the
same rows. Variant ``recorded`` and ``equals_recorded`` (lists and bytes of the incremental variant
are those recorded, request by request) read everything.

Assumptions, and where they can fail
------------------------------------
* Open loop: the FETCHes are those of the log, under any protocol. A smaller FETCH is handled
  sooner and the next one comes sooner, so rates differ; compare per FETCH, or per second with care.
* FETCHes below v7 are replayed as if their sender had been upgraded, and counted at v7. Clients
  that know sessions and request none (epoch -1, as librdkafka) send full FETCHes in any case.
* The first FETCH that the log has of a stream without a recorded session is its first: it is full
  and requests one.
* After error 70 a client does without the session; the full FETCH that follows stands for the one
  that was refused (``not_applicable``) and is incremental where the session would still be there.
  After other errors, and where the log has (id, 0), every protocol starts again with a full FETCH.
* A partition that a recorded incremental response does not list has what was returned last. The
  last stable offset alone is no reason to list one as released, so the draft replayed from
  incremental FETCHes misses such changes.
* From incremental FETCHes, the order of the full one is followed as its client would change it
  (``full_order``); it decides how often a topic is named, and nothing else.
* Broker restarts are not in a FETCH log: sessions in the caches live on. Round-robin over shards
  starts at the first, and ids, drawn at random in Kafka, count up.
* A stream without a session that was silent for ``CONNECTION_IDLE_US`` is over (brokers close such
  connections), and so is one with a session after ``SESSION_IDLE_US``.
* A session that began before the log is ``unknown`` until a full FETCH of its client. Nothing in
  the log ends that sooner: a partition that stays idle is never named, so no number of incremental
  FETCHes shows that all were seen.

Holes in the log
----------------
Only the broker's own log matters. A session whose epochs go on has missed nothing; one whose epochs
jump over a hole, and one whose first FETCH is in it, is unknown until a full FETCH. Without a
session, a full FETCH after a hole lists all that there is, but not what changed: it is unknown but
for ``full``, and from the next one on only ``session_epoch`` is. Which session holds one of N slots
after a hole is unknown to the end of the log. Where the log itself begins, caches are empty by
definition: N slots are a what-if, and so is what they begin with.
"""

from .recorded import INPUT_SCHEMA as INPUT_SCHEMA
from .replay import IncrementalFetch as IncrementalFetch
from .rows import FULL as FULL
from .rows import INCREMENTAL as INCREMENTAL
from .rows import INCREMENTAL_DRAFT as INCREMENTAL_DRAFT
from .rows import OUTCOME_SCHEMA as OUTCOME_SCHEMA
from .rows import RULE as RULE
from .rows import SESSION_SLOTS as SESSION_SLOTS
from .rows import ClientKind as ClientKind
