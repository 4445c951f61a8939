"""Kafka, once: what its classes do, without a clock and without I/O.

Each module is named and ordered as the classes that it stands for, so that it can be read beside
them. What a KIP changes is a few quoted lines and a flag there. What a log shows of it, and what it
leaves open, is the rules'; how exact its times are is the same for all.
"""

#: Stamps are cut to milliseconds, so two derived times of one event differ by up to this.
STAMP_US = 2_000
#: A follower's progress is noted at most this long after the handler took its FETCH.
PROGRESS_US_MAX = 2_000
#: A FETCH that is responded to so soon after its handler was never parked: times are rounded.
AT_ONCE_US = 100
