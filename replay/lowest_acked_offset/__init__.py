"""lowest_acked_offset: when is a metadata write visible on every broker, and who knows it?

Theory of operation
-------------------
A write to the metadata log (CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS, ...) is answered once the
controllers have committed it. Each broker applies it later, when it has learned of the commit, and
until then answers reads from its old image. The draft KIP "LowestAcknowledgedOffset" lets the
active controller tell brokers, in each BrokerHeartbeatResponse, the lowest metadata offset that all
unfenced brokers have acknowledged. A broker that forwarded a write can then hold the answer back
until nobody reads stale metadata any more ("Read-after-write visibility"), and a broker that sees a
new metadata.version can wait for the same moment before it renegotiates ApiVersions ("ApiVersions":
an UPDATE_FEATURES row's visibility ``known_at`` is when each broker can start).

The replay derives what each response would have carried and when each write would have been
applied, and known to be:

``events``, ``lines``
    the input: heartbeats, writes, Raft FETCHes, API_VERSIONS, and learned high watermarks; and
    the order in which they happened, which is not that of their answers.
``writes``
    which offsets the log leaves a write, and which broker forwarded it.
``evidence``
    how far each broker had applied the log, by three kinds of evidence.
``controller``
    the controller's brokers, ``lowestActiveOffset()`` raw and never-falling, fencing: one event
    after the other.
``runs``
    the same for all heartbeats between two that change more than an offset, as arrays.
``cadence``, ``progress``, ``simulation``
    the same with another heartbeat interval, and with brokers that learn as under KIP-1166: how
    recorded heartbeats came, what brokers had applied when, and what would have been sent.
``LowestAckedOffset`` (``replay``)
    the whole replay of one cluster: events in, outcome rows out (``outcomes``, ``rows``), and
    what it carries from one piece of log to the next (``state``, ``saved``).

It moves on in steps of the log's rows. In a step everything is done for all rows at once, with
arrays; what is rare (a broker comes, stops, is fenced, is slow) is done event by event.

Variants of ``metadata_write_outcomes``:

``lowest_acked_offset``
    the recorded heartbeats; with parameter ``broker_heartbeat_interval_ms``, simulated ones, and
    brokers that learn of commits when they really did.
``finest_evidence``
    the recorded heartbeats, but the controller counts what Raft FETCHes show as well, wherever the
    next heartbeat does not deny it: how much of the cost lies in asking every 2 s only.
``without_kip_1166``, ``with_kip_1166``
    simulated heartbeats, and brokers that learn of commits as ``hwm_parking`` replays it.

In simulated variants ``applied_everywhere_at`` is the model's own (learned, plus each broker's
delay); in the two others it is the latest moment that the evidence leaves.

What is read of a response
--------------------------
Of a heartbeat's: whether it was an error, ``isFenced`` (fencing is the existing state machine's)
and when it was built, which is when its broker is told. Of a write's: errors, per resource too, and
when it was built: the commit. Of a FETCH's: whether it was an error or diverging, and when it was
built. Of API_VERSIONS's: ``finalizedFeaturesEpoch``. Never read: high watermarks told, isCaughtUp,
shouldShutDown, the records of a FETCH. The times of ``high_watermark_lag`` are an input of the
simulated variants only.

Assumptions, and where they can fail
------------------------------------
* Heartbeats are worked off in the order in which handlers hand them to the controller's queue.
* A write's offsets are an interval; every claim is for its upper end, so "applied" and "known" may
  be late by what lies in the interval (often a NoOp), never early.
* Who is fenced for its silence is fenced at the latest moment (``controller``).
* While a broker that has not been heard may be unfenced, nothing is told: until the session timeout
  has passed since the first heartbeat, unless the log shows that the metadata log began empty.
* When a broker that lags behind unfences, the value that never falls is above what that broker
  has: it is told that "all unfenced brokers" have what it has not. Raw falls instead. The draft
  does not see this; ``heartbeat_outcomes`` has both.
* A write is followed for ``HORIZON_US``; what has not happened by then is unknown.
* Clocks of brokers and controllers are taken as one where a forwarded write is joined with its
  broker's line, and where API_VERSIONS (a broker's clock) stands beside heartbeats.
"""

from .events import INPUT_SCHEMA, ORDER
from .replay import (
    FINEST_EVIDENCE,
    HEARTBEAT_INTERVAL,
    LowestAckedOffset,
    Outcomes,
    replayed,
)
from .rows import HEARTBEAT_SCHEMA, LOWEST_ACKED, RULE, VISIBILITY_SCHEMA, WRITE_SCHEMA

__all__ = [
    "FINEST_EVIDENCE",
    "HEARTBEAT_INTERVAL",
    "HEARTBEAT_SCHEMA",
    "INPUT_SCHEMA",
    "LOWEST_ACKED",
    "ORDER",
    "RULE",
    "VISIBILITY_SCHEMA",
    "WRITE_SCHEMA",
    "LowestAckedOffset",
    "Outcomes",
    "replayed",
]
