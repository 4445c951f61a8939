"""Why an outcome is unknown, or the question does not apply: texts of the ``reason`` columns."""

from ..log_gaps import LOG_GAP as LOG_GAP

# Of a heartbeat.
NOT_ACTIVE = "sent to a controller that was not active, or refused"
NOT_HEARD_YET = "the log begins: a broker that has not been heard yet may be unfenced"
SILENT = "it depends on a silent broker, which the controller may have fenced or not"
NOBODY_COUNTS = "no broker is unfenced"

# Of a write's offsets.
NO_HIGH_WATERMARK = "the log does not tell the high watermark yet (not every voter has fetched)"
SINGLE_VOTER = "a single voter commits alone: no FETCH tells its high watermark"
RESPONSE_MISSING = "response missing from the log"
NOTHING_WRITTEN = "it wrote nothing: what it requested was so already"

# Of what became of a write.
LOG_ENDS = "the log ends before it"
HORIZON = "not within 60 s of the response"
NO_ARRIVAL = "the log does not have it at the broker that forwarded it, where it arrived"
LEFT = "the broker that forwarded it stopped or was fenced before it learned"
NOT_LEARNED = "no learned high watermarks of this variant: replay hwm_parking first"
NO_RESPONSE = "the log has no FETCH response that carried its commit to the broker"
NO_NEXT_FETCH = "the log ends before the broker's next FETCH"
STARTING = "no heartbeat shows yet that the broker was unfenced"
SLOW = "a heartbeat shows that the broker was slow, and none when it had applied it"
UNKNOWN_WORK = "the log does not have the creation of a topic that is deleted there"
