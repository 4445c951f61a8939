"""Kafka, once: what its classes do, without a clock and without I/O.

Each module is named and ordered as the classes that it stands for, so that it can be read beside
them. What a KIP changes is a few quoted lines and a flag there. What a log shows of it, and what it
leaves open, is the rules'; how exact its times are is the same for all.
"""

#: Two derived times of one event differ by up to this: a stamp is cut to a millisecond, and taken
#: just after the send. Of 500 forwarded requests on recordings most are off by less.
STAMP_US = 2_000
#: A follower's progress is noted at most this long after the handler took its FETCH, which nine of
#: ten handlers of 41,994 recorded ones had worked off by then.
PROGRESS_US_MAX = 2_000
#: A FETCH that is responded to so soon after its handler was never parked: of 71,209 recorded ones
#: 16,002 took up to 3 microseconds, as each time is rounded, and none from 4 to 91.
AT_ONCE_US = 100
