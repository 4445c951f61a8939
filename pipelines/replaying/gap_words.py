"""Gaps in logs, in sentences."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

_MOST = 3


def gap_sentences(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    sentences = []
    ordered = sorted(rows, key=itemgetter("recording", "node_id", "number"))
    for name, of_recording in groupby(ordered, key=itemgetter("recording")):
        gaps = [*of_recording]
        sentences += [gap_sentence(gap) for gap in gaps[:_MOST]]
        if len(gaps) > _MOST:
            more = f"{len(gaps) - _MOST:,} more gap{'s' * (len(gaps) > _MOST + 1)}"
            sentences.append(f"the logs of recording {name!r} have {more}: see table log_gaps")
    return sentences


def gap_sentence(gap: Mapping[str, Any]) -> str:
    of = f"node {gap['node_id']} of recording {gap['recording']!r}"
    if gap["evidence"] == "no_log":
        return f"{of} has no log: what rests on it is unknown"
    if gap["evidence"] == "logger_off":
        why = "kafka.request.logger was off, unless nothing was requested of it"
        return f"{of} has an empty log but others show it ran: {why}; what rests on it is unknown"
    if gap["evidence"] == "filtered":
        return f"{of} lacks all lines of some kind that it must have: what rests on it is unknown"
    after, before = (_time(gap[name]) for name in ("after_at", "before_at"))
    missing = gap["lines_missing"]
    lines = f"{missing:,} line{'s' * (missing > 1)} or more" if missing else "lines"
    if after is None:
        return f"{of} ran before its log begins at {before}: what rests on that is unknown"
    until = f"between {after} and {before}" if before else f"after {after}"
    if gap["evidence"] == "contradiction":
        return f"{of}: lines contradict each other {until}: what rests on them is unknown"
    return f"{of}: {lines} are missing {until} ({gap['evidence']}): what rests on them is unknown"


def _time(at: datetime | None) -> str | None:
    if at is None:
        return None
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"
