"""Holes in logs, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

#: What sentences are made of; times are microseconds since 1970.
GAPS = """
    SELECT * REPLACE (epoch_us(after_at) AS after_at, epoch_us(before_at) AS before_at)
    FROM log_gaps ORDER BY recording, node_id, number"""
#: Holes of a recording that have a sentence of their own.
_MOST = 3


def gap_sentences(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each of the first rows of ``GAPS`` of a recording, and one for the others."""
    sentences = []
    for name, of_recording in groupby(rows, key=itemgetter("recording")):
        holes = [*of_recording]
        sentences += [_sentence(hole) for hole in holes[:_MOST]]
        if len(holes) > _MOST:
            more = f"{len(holes) - _MOST:,} more hole{'s' * (len(holes) > _MOST + 1)}"
            sentences.append(f"the logs of recording {name!r} have {more}: see table log_gaps")
    return sentences


def _sentence(hole: Mapping[str, Any]) -> str:
    of = f"node {hole['node_id']} of recording {hole['recording']!r}"
    after, before = (_time(hole[name]) for name in ("after_at", "before_at"))
    if hole["evidence"] == "no_log":
        return f"{of} has no log: what rests on it is unknown"
    missing = hole["lines_missing"]
    lines = f"{missing:,} line{'s' * (missing > 1)} or more" if missing else "lines"
    if after is None:
        return f"{of} ran before its log begins at {before}: what rests on that is unknown"
    until = f"between {after} and {before}" if before else f"after {after}"
    return f"{of}: {lines} are missing {until} ({hole['evidence']}): what rests on them is unknown"


def _time(at_us: int | None) -> str | None:
    if at_us is None:
        return None
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_us % 1_000_000 // 1000:03d} UTC"
