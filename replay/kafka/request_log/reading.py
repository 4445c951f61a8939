"""Lines of one batch on their way to rows: which can be read so far, and why the others cannot."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .envelope import Envelope, decode_envelope
from .line import split_line
from .reasons import Reason, Unreadable
from .request_columns import Durations, absurd, durations_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .arrow_rows import Positions
    from .bodies import TypedRows
    from .local_time import LocalTime
    from .pseudonyms import Pseudonyms


#: Below every API key, which are of 16 bits.
_NO_API = -(2**15) - 1


@dataclass
class Reading:
    """Envelope and stamp of each line, None and 0 where it has a reason why not.

    ``details``: what is known beyond the reason, by position.
    """

    reasons: list[Reason | None]
    envelopes: list[Envelope | None]
    stamps_us: list[int]
    details: dict[int, str] = field(default_factory=dict)

    def reject(self, position: int, reason: Reason, detail: str | None = None) -> None:
        """The first reason stays."""
        if self.reasons[position] is None:
            self.reasons[position] = reason
            if detail is not None:
                self.details[position] = detail
            self.envelopes[position] = None
            self._api_keys[position] = _NO_API

    def readable(self) -> Positions:
        """Positions of the lines not rejected, ascending."""
        return np.flatnonzero([envelope is not None for envelope in self.envelopes])

    def of(self, positions: Positions) -> list[Envelope]:
        """Envelopes of readable lines."""
        chosen = [self.envelopes[position] for position in positions.tolist()]
        return [envelope for envelope in chosen if envelope is not None]

    def typed_rows(
        self, readers: dict[int, Callable[[Envelope], TypedRows]]
    ) -> dict[int, TypedRows]:
        """Of lines of the APIs in ``readers``; lines whose bodies do not fit are rejected."""
        typed: dict[int, TypedRows] = {}
        keys = self._api_keys
        for position in np.flatnonzero(np.isin(keys, list(readers))).tolist():
            envelope = self.envelopes[position]
            assert envelope is not None
            try:
                typed[position] = readers[int(keys[position])](envelope)
            except Unreadable as unreadable:
                self.reject(position, unreadable.reason, unreadable.detail)
        return typed

    def positions_of(self, api_key: int) -> Positions:
        """Readable lines of one API."""
        return np.flatnonzero(self._api_keys == api_key)

    @cached_property
    def _api_keys(self) -> NDArray[np.int64]:
        """Of every line, and where there is none what no API has."""
        return np.array(
            [
                _NO_API if envelope is None else envelope.request_header.request_api_key
                for envelope in self.envelopes
            ],
            np.int64,
        )


def line_digest(node_id: int, pseudonyms: Pseudonyms | None = None) -> hashlib.blake2b:
    """The hash of a line's content, primed with its node: the line is still to come."""
    digest = pseudonyms.line_digest() if pseudonyms else hashlib.blake2b(digest_size=16)
    digest.update(b"%d\0" % node_id)
    return digest


def line_ids(started: hashlib.blake2b, lines: Sequence[bytes]) -> list[str]:
    """Content of a line on a node: 32 hex digits of BLAKE2b over node id, NUL and line."""
    ids = []
    for line in lines:
        digest = started.copy()
        digest.update(line)
        ids.append(digest.hexdigest())
    return ids


def read_envelopes(
    lines: Sequence[bytes], time: LocalTime, second_pass_from: int, line_bytes_max: int
) -> Reading:
    """``second_pass_from``: position from which on ambiguous stamps are the second pass."""
    reading = Reading([], [], [])
    for position, line in enumerate(lines):
        try:
            if len(line) > line_bytes_max:
                raise Unreadable(Reason.too_long)
            stamp, json = split_line(line)
            stamp_us = time.microseconds(stamp, position >= second_pass_from)
            envelope = decode_envelope(json)
        except Unreadable as unreadable:
            if unreadable.detail is not None:
                reading.details[position] = unreadable.detail
            reading.reasons.append(unreadable.reason)
            reading.envelopes.append(None)
            reading.stamps_us.append(0)
        else:
            reading.reasons.append(None)
            reading.envelopes.append(envelope)
            reading.stamps_us.append(stamp_us)
    return reading


def reject_absurd_times(reading: Reading) -> None:
    """Rejects lines whose times cannot be."""
    positions = reading.readable()
    for position in positions[absurd(_durations(reading, positions))].tolist():
        reading.reject(position, Reason.absurd_times)


def _durations(reading: Reading, positions: Positions) -> Durations:
    return durations_of(reading.of(positions))
