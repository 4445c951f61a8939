"""How far each broker had applied the metadata log, by three kinds of evidence.

``heartbeat``
    BROKER_HEARTBEAT's ``currentMetadataOffset`` is ``MetadataLoader.lastAppliedOffset``: the last
    offset that all of the broker's publishers have run on. It is read when the request is built:
    after the response to the one before, and (on busy machines by hundreds of milliseconds) before
    the request arrives. So the offset was applied by the arrival; what is above it is only known
    not to have been applied by that response.
``api_versions``
    API_VERSIONS's ``finalizedFeaturesEpoch`` is the offset of the broker's metadata image: what
    its responses to METADATA and others show. It is read between dequeue and response.
``fetch_high_watermark``
    A Raft FETCH v18 carries the high watermark h that its broker knows: everything below h is
    committed. Until it learns more, with the response at the earliest, the broker cannot have
    applied what is above. In older versions the fetch offset bounds it: the end of the broker's
    log. No FETCH shows when the broker has applied what it knows; that is left to heartbeats.
"""

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ..model.raft import NOT_SENT
from ..simulation import EventQueue, Rising
from .events import API_VERSIONS, HEARTBEAT, HEARTBEAT_WAIT_US, ClusterEvent

FETCH_HIGH_WATERMARK = "fetch_high_watermark"
EVIDENCE = (HEARTBEAT, API_VERSIONS, FETCH_HIGH_WATERMARK)


class Work(NamedTuple):
    """A broker's share of a write: how long it takes, at most that long unless ``is_known``."""

    offset: int
    responded_us: int
    share_us: int
    is_known: bool


_offset = attrgetter("offset")


class Replicas(msgspec.Struct):
    """Replicas of topics, and so the work of brokers that create and delete them, by offset.

    ``by_topic``: of topics whose creation the log has; ``most``: the most that one had.
    ``is_partial``: it may lack topics, so it does not show what their deletion is.
    """

    by_topic: dict[str, int] = {}
    most: int = 0
    works: list[Work] = []
    is_partial: bool = False

    def hold(self, row: ClusterEvent) -> None:
        """Adds topics that there are, with their replicas where the row has them."""
        self.by_topic |= {t: n for t, n in zip(row.topics, row.replicas, strict=True) if n}
        self.most = max(self.most, *row.replicas, 0)

    def write(self, row: ClusterEvent, offset: int | None, replica_us: int, brokers: int) -> None:
        """Adds the work of a write whose last record has this offset, shared by all brokers.

        No line shows on which brokers the replicas are, so each has an equal share.
        """
        counts: list[int | None] = []
        # A count that the log lacks matters, unless it is a deletion's and the log has all topics.
        may_lack = True
        if row.api_name == "CREATE_TOPICS":
            self.hold(row)
            counts = [self.by_topic.get(topic) for topic in row.topics]
        elif row.api_name == "DELETE_TOPICS":
            may_lack = self.is_partial
            counts = [self.by_topic.pop(topic, None) for topic in row.topics]
        is_known = None not in counts or not may_lack
        # It is taken for that of the largest topic, or to last until the next heartbeat.
        longest_us = replica_us * self.most or HEARTBEAT_WAIT_US * brokers
        unknown_us = 0 if is_known else longest_us
        work_us = sum(unknown_us if count is None else replica_us * count for count in counts)
        if counts and offset is not None:
            work = Work(offset, row.at_us, work_us // max(1, brokers), is_known)
            insort(self.works, work, key=_offset)

    def between(self, after: int, upto: int) -> tuple[int, int | None]:
        """Returns how long the work above ``after``, up to ``upto``, takes at most.

        Beside it the last of these offsets whose work is not known, if there is one.
        """
        if not self.works or self.works[-1].offset <= after:
            return 0, None
        begin, end = (bisect_left(self.works, at + 1, key=_offset) for at in (after, upto))
        works = self.works[begin:end]
        unknown = [work.offset for work in works if not work.is_known]
        return sum(work.share_us for work in works), max(unknown, default=None)

    def forget(self, before: int) -> None:
        self.works = [work for work in self.works if work.responded_us >= before]


#: Fewest and most partitions of a topic that is not there, and of one that is.
GONE, THERE = (0, 0), (1, 2**31)


class TopicChange(NamedTuple):
    """Fewest and most partitions of a topic behind a write; offset -1: unknown, or before all."""

    requested_us: int
    offset: int
    sizes: tuple[int, int]


class WrittenTopics(msgspec.Struct):
    """Writes to topics, and the METADATA rows that wait until all writes before them are known.

    A response may fit a topic's state behind several of its writes: one that is not there was not
    created yet, or is deleted. It shows that the first of these writes was applied, and that the
    write behind the last of them was not.
    """

    changes: dict[str, list[TopicChange]] = {}
    waiting: EventQueue[ClusterEvent] = msgspec.field(default_factory=EventQueue)

    def write(self, row: ClusterEvent, offset: int) -> None:
        for topic, size in zip(row.topics, row.sizes, strict=True):
            sizes = (size, size) if size else THERE
            # Partitions before the write and behind it.
            before, after = {
                "CREATE_TOPICS": (GONE, sizes),
                "CREATE_PARTITIONS": ((1, size - 1), sizes),
                "DELETE_TOPICS": (THERE, GONE),
            }.get(row.api_name, (None, GONE))
            if before is not None:
                changes = self.changes.setdefault(topic, [TopicChange(0, -1, before)])
                changes.append(TopicChange(row.received_us, offset, after))

    def bound(self, row: ClusterEvent, image: "Bounds") -> None:
        """Bounds by a row from when on its broker's image has what was written."""
        changes, known = self.changes.get(row.topics[0], []), image.applied.values[-1:] or [-1]
        fitting = [
            place
            for place, (requested_us, _, (low, high)) in enumerate(changes)
            if requested_us <= row.at_us and low <= row.sizes[0] <= high
        ]
        begin = sum(0 <= change.offset <= known[0] for change in changes)
        # Older states count only if no other fits: responses may be built in another order.
        fitting = [place for place in fitting if place >= begin] or fitting
        if fitting:
            image.applied.add(row.at_us, changes[fitting[0]].offset)
            for change in changes[fitting[-1] + 1 : fitting[-1] + 2]:
                image.not_applied.deny(change.offset, row.at_us)

    def forget(self, before: int) -> None:
        kept = {t: c for t, c in self.changes.items() if c[-1].requested_us >= before}
        self.changes = kept


class NotApplied(msgspec.Struct):
    """Until when a broker surely had not applied an offset, nor any above."""

    offsets: list[int] = []
    until: list[int] = []

    def add(self, offset: int, until: int) -> None:
        """Notes that it had not until a time; an offset below the highest so far is nothing new."""
        if not self.offsets or offset > self.offsets[-1]:
            self.offsets.append(offset)
            self.until.append(until)
        elif offset == self.offsets[-1]:
            self.until[-1] = max(self.until[-1], until)

    def deny(self, offset: int, until: int) -> None:
        """Notes that it had not until a time later than all noted, which holds for all above."""
        if offset >= 0:
            place = bisect_left(self.offsets, offset)
            self.offsets[place:], self.until[place:] = [offset], [until]

    def until_us(self, offset: int) -> int:
        """Returns until when it surely had not applied an offset; 0 if nothing shows that."""
        index = bisect_right(self.offsets, offset)
        return self.until[index - 1] if index else 0

    def forget(self, before: int) -> None:
        keep = max(0, bisect_right(self.until, before) - 1)
        del self.offsets[:keep], self.until[:keep]


class Bounds(msgspec.Struct):
    """Evidence of one kind: from when on a broker had applied offsets, until when it had not."""

    applied: Rising = msgspec.field(default_factory=Rising)
    not_applied: NotApplied = msgspec.field(default_factory=NotApplied)


class BrokerEvidence(msgspec.Struct):
    """All evidence of one broker, and when it was there."""

    bounds: dict[str, Bounds] = msgspec.field(
        default_factory=lambda: {kind: Bounds() for kind in EVIDENCE}
    )
    #: What its heartbeats did not have when they arrived: maybe applied by then, not reported.
    reported: NotApplied = msgspec.field(default_factory=NotApplied)
    #: By its METADATA responses, whose image has an offset before the broker has applied it.
    image: Bounds = msgspec.field(default_factory=Bounds)
    first_seen_us: int | None = None
    last_seen_us: int = 0
    last_response_us: int = 0

    def heartbeat(self, row: ClusterEvent) -> None:
        at, offset = row.received_us, row.offset
        self._see(at)
        bounds = self.bounds[HEARTBEAT]
        bounds.applied.add(at, offset)
        bounds.not_applied.add(offset + 1, min(self.last_response_us, at))
        self.reported.add(offset + 1, at)
        self.last_response_us = row.at_us

    def api_versions(self, row: ClusterEvent) -> None:
        bounds = self.bounds[API_VERSIONS]
        bounds.applied.add(row.at_us, row.offset)
        bounds.not_applied.add(row.offset + 1, row.dequeued_us)

    def fetch(self, row: ClusterEvent) -> None:
        """Bounds what was applied by a Raft FETCH without error; they come in order of dequeue."""
        self._see(row.received_us)
        known = row.offset if row.high_watermark == NOT_SENT else row.high_watermark
        not_applied = max(0, min(row.offset, known))
        # It learns more with the response at the earliest.
        self.bounds[FETCH_HIGH_WATERMARK].not_applied.add(not_applied, row.at_us)

    @property
    def is_seen(self) -> bool:
        return self.first_seen_us is not None

    def is_seen_between(self, since: int, until: int) -> bool:
        """Says whether it sent something before the end of a span and after its beginning."""
        first_us = self.first_seen_us
        return first_us is not None and first_us <= until and self.last_seen_us >= since

    def _see(self, at: int) -> None:
        if self.first_seen_us is None:
            self.first_seen_us = at
        self.last_seen_us = max(self.last_seen_us, at)
