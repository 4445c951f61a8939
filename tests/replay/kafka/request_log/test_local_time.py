"""Local stamps to UTC, and the hour of autumn that occurs twice."""

from datetime import UTC, datetime

import pytest

from kip_replay.replay.kafka.request_log import (
    FoldBoundary,
    LocalTime,
    fold_boundary,
    has_ambiguous_hour,
)
from kip_replay.replay.kafka.request_log.line import RejectReason, Unreadable

ZONE = "Europe/Berlin"  # 2026: forward on 29 March at 02:00, back on 25 October at 03:00


def utc(zone: str, stamp: str, second_pass: bool = False) -> str:
    us = LocalTime(zone).microseconds(stamp.encode(), second_pass)
    return datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%d %H:%M:%S")


@pytest.mark.parametrize(
    ("zone", "stamp", "second_pass", "expected"),
    [
        (ZONE, "2026-07-01 12:00:00,000", False, "01 10:00:00"),
        (ZONE, "2026-01-01 12:00:00,000", False, "01 11:00:00"),
        ("Asia/Kolkata", "2026-01-01 12:00:00,000", False, "01 06:30:00"),
        (ZONE, "2026-10-25 02:30:00,000", False, "25 00:30:00"),
        (ZONE, "2026-10-25 02:30:00,000", True, "25 01:30:00"),
        (ZONE, "2026-10-25 03:00:00,000", True, "25 02:00:00"),
        (ZONE, "2026-10-25 01:59:59,000", True, "24 23:59:59"),
        (ZONE, "2026-03-29 01:59:59,000", False, "29 00:59:59"),
        (ZONE, "2026-03-29 03:00:00,000", False, "29 01:00:00"),
    ],
)
def test_utc(zone: str, stamp: str, second_pass: bool, expected: str) -> None:
    assert utc(zone, stamp, second_pass) == expected


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-02-30 00:00:00,000",
        "2026-01-01 24:00:00,000",
        "2026-01-01 00:00:60,000",
        "2026-01-01T00:00:00,000",
        "2026-01-01 00:00:00,0",
        "+026-01-01 00:00:00,000",
        "2026-01-01 00:0 :00,000",
        "",
        "2026-03-29 02:30:00,000",  # the gap of spring
    ],
)
def test_bad_stamps(stamp: str) -> None:
    with pytest.raises(Unreadable) as caught:
        utc(ZONE, stamp)
    is_gap = stamp.startswith("2026-03-29")
    assert caught.value.reason is (
        RejectReason.stamp_not_in_time_zone if is_gap else RejectReason.bad_stamp
    )


@pytest.mark.parametrize(
    ("zone", "first", "last", "expected"),
    [
        (ZONE, "2026-10-25 01:00:00,000", "2026-10-25 04:00:00,000", True),
        (ZONE, "2026-10-25 02:59:59,999", "2026-10-25 02:59:59,999", True),
        (ZONE, "2026-10-25 03:00:00,000", "2026-10-25 23:00:00,000", False),
        (ZONE, "2026-03-29 00:00:00,000", "2026-03-29 23:00:00,000", False),
        (ZONE, "2026-10-25 02:58:00,000", "2026-10-25 02:01:00,000", True),
        ("UTC", "2026-01-01 00:00:00,000", "2026-12-31 00:00:00,000", False),
        ("Australia/Lord_Howe", "2026-04-05 01:20:00,000", "2026-04-05 01:50:00,000", True),
    ],
)
def test_has_ambiguous_hour(zone: str, first: str, last: str, expected: bool) -> None:
    assert has_ambiguous_hour(zone, first.encode(), last.encode()) is expected


AUTUMN = (ZONE, "2026-10-25")


@pytest.mark.parametrize(
    ("where", "times", "expected"),
    [
        # A step back is the change.
        (AUTUMN, "01:50 02:10 02:55 02:01 02:40 03:05", FoldBoundary(4, True)),
        (AUTUMN, "02:55 02:01", FoldBoundary(2, True)),
        (
            ("Australia/Lord_Howe", "2026-04-05"),
            "01:20 01:40 01:58 01:31 02:10",
            FoldBoundary(4, True),
        ),
        # Small steps back are the order of completion.
        (AUTUMN, "01:59 02:10 02:09 02:11", FoldBoundary(None, True)),
        (("UTC", "2026-10-25"), "02:10 02:09 02:10", FoldBoundary(None, True)),
        # Begins in the second pass.
        (AUTUMN, "02:35 02:50 03:01", FoldBoundary(1, True)),
        # No ambiguous line.
        (AUTUMN, "00:10 01:10 03:10", FoldBoundary(None, True)),
        (AUTUMN, "", FoldBoundary(None, True)),
        # Undecided: nothing around it; an hour's pause may lie before the file, or after it, or in
        # one of its pauses.
        (AUTUMN, "02:10 02:20", FoldBoundary(None, False)),
        (AUTUMN, "02:00 02:10 03:10", FoldBoundary(None, False)),
        (AUTUMN, "01:00 02:05", FoldBoundary(None, False)),
        (AUTUMN, "01:58 02:05 02:30 02:50 03:01", FoldBoundary(None, False)),
    ],
)
def test_boundary(where: tuple[str, str], times: str, expected: FoldBoundary) -> None:
    """Of a file with a line per time, from line 1."""
    zone, day = where
    local = ((n, datetime.fromisoformat(f"{day} {at}")) for n, at in enumerate(times.split(), 1))
    assert fold_boundary(local, zone) == expected
