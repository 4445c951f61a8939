"""Holes in logs, in words."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

#: Holes of a recording that have a sentence of their own.
_MOST = 3


def gap_sentences(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each of the first rows of ``log_gaps`` of a recording; one for the others."""
    sentences = []
    ordered = sorted(rows, key=itemgetter("recording", "node_id", "number"))
    for name, of_recording in groupby(ordered, key=itemgetter("recording")):
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


def _time(at: datetime | None) -> str | None:
    if at is None:
        return None
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"
