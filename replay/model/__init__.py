"""Kafka, once: what its classes do, without a clock and without I/O.

Each module is named and ordered as the classes that it stands for, so that it can be read beside
them. What a KIP changes is a few quoted lines and a flag there. Rules decide what a log shows of
these classes and what it leaves open; how exact a log's times are is the same for all rules, below.
"""

#: Two derived times of one event differ by up to this: a stamp is cut to a millisecond, and taken
#: just after the send. Of 500 forwarded requests on recordings most are off by less.
STAMP_US = 2_000
#: A follower's progress counts as noted at most this long after the handler took its FETCH: nine in
#: ten of 41,994 recorded handlers were done by then.
PROGRESS_US_MAX = 2_000
#: A FETCH whose response is built within this time of its handler's end was not parked: of 71,209
#: recorded ones 16,002 took up to 3 microseconds, as each time is rounded, and none from 4 to 91.
AT_ONCE_US = 100
