"""lowest_acked_offset: when is a metadata write visible on every broker, and which broker knows?

Theory of operation
-------------------
The draft KIP, the model and its limits: docs/rules/lowest_acked_offset.md. A broker that knows how
far all others are "can avoid exposing metadata that has not been fully replicated"
("Read-after-write visibility"): in the model, one that forwarded a write responds when it knows
that no broker serves older metadata. One that sees a new metadata.version can wait for the same
before it renegotiates ("ApiVersions"): ``known_at`` of the UPDATE_FEATURES write's visibility.

The rule is ``replay/model/brokers.py``. ``writes`` has which offsets the log leaves a write, and
which broker forwarded it; ``evidence`` bounds how far each broker had applied the log, ``applying``
estimates when. ``simulation`` has controllers that count these too, and other heartbeat intervals
with brokers that learn as under KIP-1166. ``replay`` takes the ``events`` of one cluster and emits
``outcomes``; it carries its ``state`` from one increment of the log to the next.

Variants of ``metadata_write_outcomes``:

``lowest_acked_offset``
    the recorded heartbeats; with parameter ``broker_heartbeat_interval_ms``, simulated ones, and
    brokers that learn of commits when they really did.
``estimated``
    no protocol: when brokers showed the write to clients, as ``applying`` estimates it. A broker
    that was fenced because it was frozen counts here, and under no protocol: once it runs again it
    shows old metadata. Unknown where the last broker's FETCH responses are not in the log.
``without_kip_1166``, ``with_kip_1166``
    simulated heartbeats, and brokers that learn of commits as ``hwm_parking`` replays it.

In simulated variants ``applied_everywhere_at`` is the model's own (learned, plus each broker's
delay); with recorded heartbeats it is the latest moment that these allow.

Gaps in the log
---------------
A gap in the log of the controller that is active, or may have become so in it, ends the replay as
the end of the log does; behind it the log begins in the middle (``Beginning``). All is unknown
until it is certain which brokers count. Simulated heartbeats stay unknown behind a gap, since they
follow from all those before them. A gap in another controller's log hides nothing, one in a
broker's log only its API_VERSIONS. A forwarded write without a line at its broker has no arrival,
so its read-after-write is unknown; when it was applied is not. A line with an epoch or offset that
its sender's lines before and after contradict (``wrong_lines``) counts as missing.

What is read of a response
--------------------------
Of a heartbeat's: whether it was an error, ``isFenced`` (fencing is the existing state machine's)
and when it was built, which is when its broker receives it. Of a write's: errors, per resource too,
and when it was built: the commit. Of a FETCH's: whether it was an error or diverging, and when it
was built. Of API_VERSIONS's: ``finalizedFeaturesEpoch``. Never read: isCaughtUp, shouldShutDown,
the records of a FETCH. The high watermark of a FETCH response is an input of the estimate only, the
times of ``high_watermark_lag`` are one of the simulated variants only. METADATA corrects the
estimate only, by which topics that were written lately are there, with how many partitions.

Assumptions, and where they can fail
------------------------------------
* Heartbeats are worked off in the order in which handlers pass them to the controller's queue.
* A silent broker is fenced at the latest moment (``brokers``), and only if the same controller is
  still active: another one starts to count when it takes over. A response that depends on it until
  then is unknown.
* While a broker that has sent nothing yet may be unfenced, no response carries an offset: until the
  session timeout has passed since the first heartbeat, unless the log shows that the metadata log
  began empty.
* Clocks of brokers and controllers are taken as one where a forwarded write is joined with its
  broker's line, and where API_VERSIONS and METADATA (by a broker's clock) meet heartbeats.
"""

from ..model.raft import NO_RESPONSE, NOT_SENT
from ..rule import Comparison, KeySettings, Replay, Rule
from . import outcomes, state
from .events import HEARTBEAT_INTERVAL, INPUT_SCHEMA, ORDER
from .replay import LowestAckedOffset


def _start(own: KeySettings, saved: bytes | None) -> Replay:
    cluster_settings = state.ClusterSettings(
        own.voters,
        own.option(HEARTBEAT_INTERVAL),
        own.facts.get(HEARTBEAT_INTERVAL),
        own.gaps,
        replica_apply_ms=own.option("replica_apply_ms", state.REPLICA_APPLY_MS),
    )
    return LowestAckedOffset(cluster_settings, saved)


RULE = Rule(
    key=("recording",),
    order=ORDER,
    input_schema=INPUT_SCHEMA,
    tables=outcomes.OUTCOMES,
    start=_start,
    facts=("voters", "clocks_apart"),
    sweeps={HEARTBEAT_INTERVAL: 1},
    numbers={"replica_apply_ms": 0},
    constants={"not_sent": NOT_SENT, "no_response": NO_RESPONSE},
    comparison=Comparison(
        "node_id",
        {
            outcomes.HeartbeatOutcome.name: (
                *("lowest_acknowledged_offset", "lowest_acknowledged_offset_raw"),
                "unfenced_brokers",
            ),
            outcomes.WriteOutcome.name: (
                *("offset_low", "offset_high", "applied_everywhere_at", "last_broker_id"),
                *("known_at", "known_everywhere_at", "stale_window_ms", "read_after_write_ms"),
            ),
            outcomes.VisibilityOutcome.name: outcomes.VISIBLE,
            outcomes.AppliedOffset.name: ("shown_at", "applied_at"),
            outcomes.ShownEverywhere.name: ("shown_at",),
        },
    ),
)
