"""From when on a replay that begins within a leader's epoch is the one of the whole epoch.

A log can begin there, or have a hole. What was appended up to its first lines is known, and not
when; the high watermark is not. Whatever is appended later is: so the recorded leader has settled
once its high watermark has passed all that was there.

In a closed loop the replicas' FETCHes at first come at the wrong times. An append completes all who
are parked, so a replica that was parked at ``WAKES`` appends, with its gaps measured by then, does
what it does in the replay of the whole epoch. The leader's high watermark is right once all its
voters do.
"""

from collections.abc import Collection, Iterable

import msgspec

#: At one it could be on its way in the replay of the whole epoch.
WAKES = 2


class Settling(msgspec.Struct, array_like=True):
    """``log_end_offset``: of what was there before the first lines; -1 if the epoch begins in them.

    ``woken``: how many appends after that have completed a FETCH of each replica.
    """

    log_end_offset: int = -1
    settled_us: int | None = None
    woken: dict[int, int] = {}

    def is_new(self, high_watermark: int) -> bool:
        return high_watermark > self.log_end_offset

    def append(self, log_end_offset: int, parked: Iterable[int]) -> None:
        """The leader appends up to an offset while replicas are parked."""
        if 0 <= self.log_end_offset < log_end_offset:
            for replica_id in parked:
                self.woken[replica_id] = self.woken.get(replica_id, 0) + 1

    def advanced(self, at: int, voters: Iterable[int]) -> None:
        """The high watermark moved to a new one; of the ``voters`` FETCHes come."""
        if self.settled_us is None and all(self._is_aligned(voter) for voter in voters):
            self.settled_us = at

    def has_settled(self, at: int) -> bool:
        return self.log_end_offset < 0 or (self.settled_us is not None and self.settled_us <= at)

    def is_settled(self, replica_id: int) -> bool:
        """What a replica sends from now on is what it would in the replay of the whole epoch."""
        if self.log_end_offset < 0:
            return True
        return self.settled_us is not None and self._is_aligned(replica_id)

    def _is_aligned(self, replica_id: int) -> bool:
        return self.woken.get(replica_id, 0) >= WAKES

    def unsettled(self, replicas: Collection[int]) -> set[int]:
        if self.log_end_offset < 0:
            return set()
        return {replica_id for replica_id in replicas if not self.is_settled(replica_id)}
