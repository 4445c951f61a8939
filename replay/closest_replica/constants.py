"""Times, limits and shares of closest_replica: Kafka's settings, measurements, and choices.

One that names neither a setting nor a measurement is a choice, for the reason beside it.
"""

from ..model import PROGRESS_US_MAX, STAMP_US
from ..model.partition import REPLICA_FETCH_WAIT_MAX_US

#: A read is decided this long after its response: by then followers got the responses it rests on.
DECIDED_AFTER_US = 10_000_000
#: What is this much older than the log's front is forgotten, in steps of half of it.
FORGET_US = 60_000_000
#: A partition that a session's FETCH listed longer ago is forgotten.
LISTED_US = 24 * 3_600_000_000
#: Clients that are remembered.
CLIENTS_MAX = 10_000
#: Responses to followers wait at most half of this. So a high watermark that none carries for
#: longer did not move when followers had the records, but later.
MOVED_US_MAX = 2 * REPLICA_FETCH_WAIT_MAX_US
#: A follower behind the high watermark that has not fetched for this long has stopped.
STOPPED_US = 10_000_000
#: What stamps, and the place within a handler, leave open of when a follower has records.
NOTED_US = STAMP_US + PROGRESS_US_MAX
#: A consumer that reads committed records, and waited this much longer than for the record, waited
#: for the end of its transaction.
TRANSACTION_US = 10_000
