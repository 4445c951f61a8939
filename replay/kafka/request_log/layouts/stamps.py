"""Timestamps as log4j2's named formats and other patterns write them, in Kafka's default form.

With a zone or as milliseconds since 1970 they are converted to the zone of the recording; without,
they are in it already. A stamp without milliseconds orders no requests and is refused.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from ..line import RejectReason, Unreadable

_MONTHS = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
#: 2026-11-20 20:30:34,831; T, a dot, more decimals and a zone are usual elsewhere.
_DATED = (
    rb"(?P<y>\d{4})[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[ T](?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)"
    rb"(?:[,.](?P<f>\d{3,9}))?(?P<z>Z| ?[+-]\d\d:?\d\d|[+-]\d\d(?![\d:]))?(?![\d:])"
)
#: The same in any form that a pattern can have: DATE, COMPACT and ISO8601_BASIC, UNIX_MILLIS.
_ANY = re.compile(
    rb"(?<!\d)(?:" + _DATED + rb"|(?P<d2>\d\d?)[ /-](?P<mon>" + b"|".join(_MONTHS) + rb")[ /-]"
    rb"(?P<y2>\d{4})[ T:](?P<h2>\d\d):(?P<mi2>\d\d):(?P<s2>\d\d)(?:[,.](?P<f2>\d{3,9}))?"
    rb"|(?P<y3>(?:19|20)\d\d)(?P<mo3>[01]\d)(?P<d3>[0-3]\d)[ T]?(?P<h3>[0-2]\d)(?P<mi3>[0-5]\d)"
    rb"(?P<s3>[0-5]\d)(?:[,.](?P<f3>\d{3,9})|(?P<f4>\d{3}))?(?P<z3>Z|[+-]\d\d:?\d\d)?(?!\d)"
    rb"|(?P<epoch>1[0-9]{9})(?:\.?(?P<fe>\d{3}(?:\d{3}){0,2}))?(?![\d:.-]))"
)
_AT = re.compile(_DATED)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: A number since 1970 that is greater is not one of seconds.
_MILLIS_MIN = 1e11
_CACHE_SIZE_MAX = 1 << 16
#: Fields that hold a line's timestamp beside it, the most specific ones first.
FIELDS = ("instant", "timeMillis", "@timestamp", "timestamp", "time", "ts", "date", "datetime")


@lru_cache(_CACHE_SIZE_MAX)
def _has_stamp(text: bytes) -> bool:
    """Returns whether a timestamp is between another one and the marker."""
    return _ANY.search(text) is not None


class StampReader:
    """Finds a line's timestamp and gives it as ``yyyy-MM-dd HH:mm:ss,SSS`` in ``zone``.

    ``is_padded``: six decimals are milliseconds behind three zeros.
    """

    def __init__(self, zone: str, is_padded: bool = False) -> None:
        self._is_padded = is_padded
        self._zone = ZoneInfo(zone)
        self._second = lru_cache(_CACHE_SIZE_MAX)(self._in_zone)
        #: Where the last timestamp was found: in a text, and among the fields of a record.
        self._offset = -1
        self._field = FIELDS[0]

    def of_text(self, text: bytes, start: int, stop: int) -> bytes | None:
        """The last timestamp in ``text[start:stop]``, or None. Raises ``Unreadable``."""
        match = _AT.match(text, self._offset, stop) if self._offset >= start else None
        if match is None or _has_stamp(text[match.end() : stop]):
            every = [*_ANY.finditer(text, start, stop)]
            # A number of ten digits may be anything, so any other form goes before it.
            dated = [stamp for stamp in every if stamp["epoch"] is None or stamp["fe"]] or every
            if not dated:
                return None
            match = dated[-1]
            self._offset = match.start()
        return self._canonical(match)

    def without(self, text: bytes) -> bytes:
        """Cuts a text before its last timestamp, and removes other timestamps."""
        return b" ".join(_ANY.sub(b"\0", text).split(b"\0")[:-1])

    def begins(self, text: bytes) -> bool:
        return _AT.match(text, text.startswith(b"[")) is not None

    def of_record(self, record: dict[str, Any]) -> bytes | None:
        for name in (self._field, *FIELDS, *record):
            if (value := record.get(name)) is not None and (stamp := self._of_value(value)):
                self._field = name
                return stamp
        return None

    def _of_value(self, value: Any) -> bytes | None:
        if isinstance(value, dict) and "epochSecond" in value:
            try:
                second, nanos = int(value["epochSecond"]), int(value.get("nanoOfSecond") or 0)
            except (TypeError, ValueError, OverflowError):
                raise Unreadable(RejectReason.bad_stamp, str(value)) from None
            return self._of_epoch(second, b"%03d" % (nanos // 1_000_000))
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        decimals = 3 if isinstance(value, float) and value < _MILLIS_MIN else 0
        text = (f"{value:.{decimals}f}" if isinstance(value, float) else str(value)).encode()
        match = _AT.fullmatch(text) or _ANY.fullmatch(text)
        return None if match is None else self._canonical(match)

    def _canonical(self, match: re.Match[bytes]) -> bytes:
        # Most stamps are dated, with decimals and without a zone: no group has to be read.
        if match.re is _AT and match.lastgroup == "f" and not self._is_padded:
            stamp = match[0]
            return stamp[:10].replace(b"/", b"-") + b" " + stamp[11:19] + b"," + stamp[20:23]
        y, mo, d, h, mi, s, fraction, zone = match.group("y", "mo", "d", "h", "mi", "s", "f", "z")
        if match.re is _ANY and match["epoch"]:
            fraction = match["fe"]
            return self._of_epoch(int(match["epoch"]), fraction and fraction[:3])
        if y is None:
            y, h, mi, s, fraction = match.group("y2", "h2", "mi2", "s2", "f2")
            if y is not None:
                mo = b"%02d" % (1 + _MONTHS.index(match["mon"]))
                d = match["d2"].zfill(2)
            else:
                y, mo, d, h, mi, s = match.group("y3", "mo3", "d3", "h3", "mi3", "s3")
                fraction, zone = match["f3"] or match["f4"], match["z3"]
        if fraction is None:
            raise Unreadable(RejectReason.stamp_without_milliseconds, match[0].decode())
        if self._is_padded and len(fraction) == 6:
            fraction = fraction[3:]
        second = b"%s-%s-%s %s:%s:%s" % (y, mo, d, h, mi, s)
        return (second if zone is None else self._second(second, zone)) + b"," + fraction[:3]

    def _of_epoch(self, second: int, millis: bytes | None) -> bytes:
        if millis is None:
            raise Unreadable(RejectReason.stamp_without_milliseconds, str(second))
        return self._second(second, b"") + b"," + millis

    def _in_zone(self, second: bytes | int, offset: bytes) -> bytes:
        """A second with its zone's offset, or since 1970, as a second of the recording's zone."""
        try:
            if isinstance(second, int):
                at = _EPOCH + timedelta(seconds=second)
            else:
                at = _with_offset(second, offset)
            local = at.astimezone(self._zone)
        except (ValueError, OverflowError):  # the years 1 and 9999 have no other zone
            raise Unreadable(RejectReason.stamp_out_of_range) from None
        return local.strftime("%Y-%m-%d %H:%M:%S").encode()


def _with_offset(second: bytes, offset: bytes) -> datetime:
    zone = offset.strip().replace(b"Z", b"+00:00")
    try:
        return datetime.fromisoformat((second + zone).decode())
    except ValueError:
        raise Unreadable(RejectReason.bad_stamp, (second + offset).decode()) from None
