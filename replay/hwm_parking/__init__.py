"""hwm_parking: when do replicas of the metadata log learn a new high watermark? (KIP-1166)

Theory of operation
-------------------
The KIP and the model: docs/rules/hwm_parking.md. A voter's FETCH at offset X shows that it has
everything below X. Once a majority has, the high watermark moves, while other replicas that have
the same records may be parked at X already: without the KIP they learn of it with the next append.

The rule is ``replay.model.raft``. Two loops compare it with a log: ``open_loop`` checks whether the
rule, or a stall, could have given the recorded responses, ``closed_loop`` starts leader and
replicas anew. What no rule explains (when the leader appended, how long a replica takes from a
response to its next FETCH, how fast the leader's Raft thread responds) is ``evidence``.
``HwmParking`` runs ``LOOKAHEAD_US`` behind the log, so its memory is that span and not the log.

An outcome rests on the leader's log alone. At a gap in it the replay ends, and another begins in
the middle, unknown until it is warm (``WarmUp``). Once it is, it differs from a replay of the whole
log at most in the time for one response, until the next append shows that.

What is read of a response
--------------------------
*Inputs of the rule:* ``built_at`` (only through appends, drains, delays and how long the Raft
thread took from a cause to its response), ``record_bytes`` (which appends it carried),
``response_bytes`` (the envelope around the records), whether it was diverging or a snapshot (no
drain gives those), and an error "not the leader" (``NOT_LEADING``), which ends an epoch.
*Never read by the closed loop:* the high watermark carried, the completion, how long a FETCH
waited for its cause; ``tests/replay/hwm_parking`` blanks them and gets the same rows. The open loop
reads them, since they are what is compared.

Assumptions, and where they can fail
------------------------------------
* The delay between a response and the next FETCH is the replica's own, whatever the rule. The
  replica's recorded one nearest in time is used; nothing is drawn, because the slow moments of a
  machine hit all its replicas together.
* From an append, or from the FETCH that moves the high watermark, to a replica's response the
  Raft thread takes what it took for that replica's recorded one nearest in time. A stall (over
  ``STALL_US``) holds what is due within it until its end, and says nothing of other times.
  Without the KIP no move wakes anybody: there it takes as long as after an append. FETCHes that
  arrive it handles one after the other; the time for one is the mean step between the responses of
  one append.
* A replica that sends nothing for more than ``ABSENCE_US`` is away (frozen, restarting, cut off):
  no variant lets it FETCH in that span.
* An append is known from the first response that carries it; if no FETCH was parked at the time, it
  was a little earlier.
* Drains without a batch come from stalls, so they are given as the appends are, and every variant
  has them. One that finds nobody parked does not show.
"""

from ..log_gaps import LOG_GAP
from ..log_tables import Fetches
from ..model.raft import NO_RESPONSE, NOT_SENT
from ..rule import KeySettings, Replay, Rule
from .evidence import INPUT_SCHEMA
from .outcomes import MIDDLE_OF_EPOCH, HighWatermarkLag, ParkedFetch, variants
from .replay import LOOKAHEAD_US, STEPS_PER_LOOKAHEAD, HwmParking


def _start(own: KeySettings, saved: bytes | None) -> Replay:
    rules = variants(own.option("max_wait_ms"))
    return HwmParking(own.node_id, own.voters, rules, saved, own.gaps, own.steady_phase)


RULE = Rule(
    order=("built_us", "request_id"),
    input_schema=INPUT_SCHEMA,
    tables=(ParkedFetch, HighWatermarkLag),
    start=_start,
    facts=("voters",),
    sweeps={"max_wait_ms": 1},
    needs=Fetches,
    # How far behind the log: the look-ahead, its step, and another for the last row.
    behind_us=LOOKAHEAD_US + 2 * LOOKAHEAD_US // STEPS_PER_LOOKAHEAD,
    constants={
        "not_sent": NOT_SENT,
        "no_response": NO_RESPONSE,
        "log_gap": LOG_GAP,
        "middle_of_epoch": MIDDLE_OF_EPOCH,
    },
)
