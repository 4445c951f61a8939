"""Error codes of responses, and why the log leaves an outcome open."""

from ..log_gaps import LOG_GAP

#: Kafka's error codes (org.apache.kafka.common.protocol.Errors).
NONE = 0
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS = 19
#: "Compatibility": what a broker without the KIP responds to acks=-2.
INVALID_REQUIRED_ACKS = 21
#: Errors of a PRODUCE that was not appended which the rule decides: it reads all others of the log.
DECIDED = (NONE, NOT_ENOUGH_REPLICAS, INVALID_REQUIRED_ACKS)

ISR_NOT_IN_LOG = "the ISR at the append is not in the log"
MIN_ISR_NOT_IN_LOG = "min.insync.replicas of the topic is not in the log"
OFFSET_NOT_IN_LOG = "the base offset is not in the log"
NOTHING_APPENDED = "nothing was appended, and the ISR was large enough: see recorded_error"
REFUSED_AS_RECORDED = "nothing was appended, but would have been with this min.insync.replicas"
LEADER_LOST = "the leader was lost meanwhile, and the log does not tell when"
FENCED_WHEN = "a broker was fenced meanwhile, and the log leaves open which append did it"
CONTRADICTED = "a follower's offset goes back: it contradicts the FETCH before"
COLD = "the broker was cold, and may get warm where responses come sooner"
ACKS_0 = "acks=0 waits for nobody"
LOG_ENDED = "the log ended before the response"
#: Reasons by code; code 0 is none.
REASONS = (
    *(None, ISR_NOT_IN_LOG, MIN_ISR_NOT_IN_LOG, OFFSET_NOT_IN_LOG, NOTHING_APPENDED),
    *(REFUSED_AS_RECORDED, LEADER_LOST, FENCED_WHEN, CONTRADICTED, LOG_ENDED, LOG_GAP),
    ACKS_0,
)
