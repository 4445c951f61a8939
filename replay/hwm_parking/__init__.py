"""hwm_parking: when do replicas of the metadata log learn a new high watermark? (KIP-1166)

Theory of operation
-------------------
The KIP and the model: docs/rules/hwm_parking.md. A voter's FETCH at offset X shows that it has
everything below X, which moves the high watermark when the others are parked at X already.

The rule is ``replay.model.raft``, held against a log in two ways: ``explain`` checks whether it, or
a stall, could have given the responses that were recorded, ``closed_loop`` starts leader and
replicas anew.
What the log shows that no rule explains (when the leader appended, how long a replica takes from a
response to its next FETCH, how fast the leader's Raft thread responds) is in ``evidence``.
``HwmParking`` replays one controller's log, an ``epoch`` for each that it led, a fixed span
(``LOOKAHEAD_US``) behind the log, so its memory is that span and not the log.

Holes in the log
----------------
An outcome rests on the leader's log alone. At a hole in it the replay ends, and another begins
behind it, unknown until it has settled (``settling``). What was measured nearest to an outcome may
lie in the hole, so those within ``ABSENCE_US`` of it are unknown as well. What can differ then is
how long the Raft thread takes for one response, where no append shows that for longer.

What is read of a response
--------------------------
*Inputs of the rule:* ``built_at`` (only through appends, drains, gaps and how long the Raft thread
took from a cause to its response), ``record_bytes`` (which appends it carried), ``response_bytes``
(the envelope around the records), whether it was diverging or a snapshot (no drain gives those),
and whether the error is "not the leader" (6, 74, 75 and others), which bounds a leader's epoch.
*Never read by the closed loop:* the high watermark carried, the completion, how long a FETCH
waited for its cause; ``tests/unit/test_hwm_parking.py`` blanks them and gets the same rows. The
recorded variant and ``explain`` read them, since they are what is compared.

Assumptions, and where they can fail
------------------------------------
* A gap between a response and the next FETCH is the replica's own: it does not depend on the rule.
  The gap used is the replica's recorded one nearest in time; nothing is drawn, because the slow
  moments of a machine hit all its replicas together.
* From an append, or from the FETCH that moves the high watermark, to a replica's response the
  Raft thread takes what it took for that replica's recorded one nearest in time, stalls included.
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

from ..model.raft import NOT_SENT as NOT_SENT
from ..model.raft import UNKNOWN_OFFSET as UNKNOWN_OFFSET
from ..model.raft import Completion as Completion
from .explain import STAMP_SLACK_US as STAMP_SLACK_US
from .metadata_log import INPUT_SCHEMA as INPUT_SCHEMA
from .metadata_log import NO_RESPONSE as NO_RESPONSE
from .metadata_log import RecordedFetch as RecordedFetch
from .outcomes import RULE as RULE
from .outcomes import WITH_KIP as WITH_KIP
from .outcomes import WITHOUT_KIP as WITHOUT_KIP
from .outcomes import Outcomes as Outcomes
from .outcomes import variants as variants
from .replay import HwmParking as HwmParking
