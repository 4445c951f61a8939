"""incremental_fetch: how much of FETCH is repetition, and what do sessions save? (KIP-227)

What the KIP is, the model and its limits: docs/rules/incremental_fetch.md. Full and incremental
FETCHes show the same: which partitions a client fetches, and what changes. So each FETCH of a
client at a broker (``streams``) is first reduced to its changes (``replay.model.fetch_session``,
which is the KIP, section by section), and then replayed under every protocol:

* ``recorded``: as logged.
* ``full``: no sessions: every partition in every FETCH, both ways.
* ``incremental``: as ``released``, and every session that is requested finds a slot. With
  ``session_slots`` = N there are N slots: a client that is refused sends full FETCHes and requests
  a session each time; one whose session was evicted has its next incremental FETCH refused with
  FETCH_SESSION_ID_NOT_FOUND (attempt 0) and repeats it in full (attempt 1).
* ``incremental_draft``: version 3 of the KIP's page (``draft``), for followers. Consumers send full
  FETCHes, each with the 8 bytes of a uuid in its response.

Of a response are read, of each partition, the error, offsets, preferred replica, diverging epoch,
records and aborted transactions; the error, throttle time, session id and endpoints of the whole;
and ``built_us``, when a session is created. *Never* the order of partitions in an incremental
response, how many there are, and all sizes: those are what is replayed. Variant ``recorded`` and
``equals_recorded`` read everything.

Assumptions, and where they can fail
------------------------------------
* FETCHes below v7 are replayed as if their sender had been upgraded, and counted at v7.
* The first FETCH that the log has of a stream without a recorded session is its first: it is full
  and requests one.
* A FETCH that is refused with error 70 is ``not_applicable``: the full one by which its client
  repeats it is replayed instead, as an incremental one where the session would still be there.
  After other errors, and where the log has (id, 0), every protocol starts again with a full FETCH.
  So does a client that goes from topic names to ids, without the FETCH that is refused (106).
* A partition that a recorded incremental response does not list has what was returned last. The
  last stable offset alone is no reason to list one as released, so the draft replayed from
  incremental FETCHes misses such changes.
* From incremental FETCHes, the order of the full one is followed as its client would change it
  (``FollowedPartitions``); it decides how often a topic is named, and nothing else.
* Broker restarts are not in a FETCH log: sessions in the caches live on. Round-robin over shards
  starts at the first, and ids, drawn at random in Kafka, count up.
* A session that is older than the log has the partitions that its events begin with
  (``take_over``), until a response returns, or a FETCH forgets, what it lacks. What was last sent
  of them is not known, so what is listed counts as changed; where their order is not known, bytes
  of full FETCHes are bounds.
* A stream without a session that was silent for ``CONNECTION_IDLE_US`` is over (brokers close such
  connections), and so is one with a session after ``SESSION_IDLE_US``.

Only gaps in the broker's own log matter. A session whose epochs go on has missed nothing; one
whose epochs jump over a gap, and one whose first FETCH is in it, is unknown until a full FETCH.
Without a session, a full FETCH behind a gap lists all that there is, but not what changed: only
``full`` is known of it, and from the next one on all but ``session_epoch``. Behind a gap it stays
unknown which sessions have the N slots. Where the log itself begins, caches are empty by
definition: N slots are a what-if, and so is what they begin with.
"""

from ..log_tables import Fetches
from ..model.fetch_session import SHARDS
from ..rule import KeySettings, Replay, Rule
from .outcomes import SESSION_SLOTS, Sent, SessionCacheEvent
from .recorded import INPUT_SCHEMA
from .replay import IncrementalFetch
from .streams import Unknown


def _start(own: KeySettings, saved: bytes | None) -> Replay:
    return IncrementalFetch(own.node_id, own.option(SESSION_SLOTS), saved, own.gaps)


RULE = Rule(
    order=("dequeued_us", "request_id"),
    input_schema=INPUT_SCHEMA,
    tables=(Sent, SessionCacheEvent),
    start=_start,
    sweeps={SESSION_SLOTS: 0},
    needs=Fetches,
    constants={"shards": SHARDS, "began_before_log": Unknown.BEGAN_BEFORE_LOG.value},
)
