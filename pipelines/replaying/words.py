"""Says for the terminal and the report which lines are missing, and whose clocks are apart."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from kip_replay.replay.kafka.clocks import Clocks, Offset, off_from_all

Row = Mapping[str, Any]


def clock_sentences(rows: Sequence[Row]) -> list[str]:
    """Returns, by recording, whose clocks are apart, what follows, and what to do."""
    sentences = []
    for recording in dict.fromkeys(row["recording"] for row in rows):
        mine = [row for row in rows if row["recording"] == recording]
        sentences += _of_reference(mine) or [_sentence(row) for row in mine if is_apart(row)]
    return sentences


def is_apart(row: Row) -> bool:
    return row["clocks"] in (Clocks.DIFFER, Clocks.CONTRADICTED)


def _of_reference(rows: Sequence[Row]) -> list[str]:
    apart = [row for row in rows if row["clocks"] == Clocks.DIFFER]
    shared = off_from_all(_offset(row) for row in apart)
    if shared is None:
        return []
    bounded = [row for row in apart if _offset(row)[:2] != (None, None)]
    others = ", ".join(str(row["node_id"]) for row in bounded)
    # They are ahead of it: it is behind them.
    least, most = -(shared.latest_us or 0) / 1000, -(shared.earliest_us or 0) / 1000
    return [_apart(rows[0]["recording"], rows[0]["reference_id"], least, most, f"nodes {others}")]


def _offset(row: Row) -> Offset:
    ends = (row["offset_earliest_ms"], row["offset_latest_ms"])
    least, most = (None if end is None else round(end * 1000) for end in ends)
    return Offset(least, most, is_contradicted=row["clocks"] == Clocks.CONTRADICTED)


def _sentence(row: Row) -> str:
    recording, node, reference = row["recording"], row["node_id"], row["reference_id"]
    if row["clocks"] == Clocks.CONTRADICTED:
        return (
            f"recording {recording!r}: the clock of node {node} was set while it logged, or lines "
            f"are missing: no one offset to node {reference} explains its log. {_UNKNOWN}"
        )
    ends = (row["offset_earliest_ms"], row["offset_latest_ms"])
    return _apart(recording, node, *ends, f"node {reference}")


_UNKNOWN = "Outcomes that rest on both clocks are unknown"


def _apart(
    recording: str, node: int, low_ms: float | None, high_ms: float | None, other: str
) -> str:
    """``low_ms``, ``high_ms``: how far the node is ahead; one of them may not be known."""
    known = sorted((end for end in (low_ms, high_ms) if end is not None), key=abs)
    way = "ahead of" if known[0] > 0 else "behind"
    ends = " to ".join(f"{abs(end) / 1000:.2f}" for end in known)
    if len(known) == 1:
        ends, mend = f"at least {ends}", "The log does not bound it more closely"
    else:
        mend = (
            f'To correct it, add {-round(sum(known) / 2)} to "clock_offset_ms" (0 if not given) of '
            f"node {node} in recording.json, delete the recording from the warehouse and run again"
        )
    return (
        f"recording {recording!r}: the clock of node {node} was {ends} s {way} that of {other}. "
        f"{_UNKNOWN}. {mend}"
    )


_MOST = 3
#: How each kind of selection shows (``gaps/selections.sql``), and what it takes instead.
SELECTIONS = {
    "deprecated_only": "every request in them is of a deprecated version, as where "
    "kafka.request.logger is at INFO; it takes DEBUG",
    "sampled": "connections skip requests evenly, as in a sample; it takes every request",
    "no_fetch": "they have no FETCH, though other requests show that there were some; it takes "
    "every API",
}


def selection_sentence(evidence: str) -> str:
    return (
        f"these logs are a selection of requests: {SELECTIONS[evidence]}. Which clients an upgrade "
        "breaks, and who is connected, still shows; all else is unknown"
    )


def gap_sentences(rows: Iterable[Row]) -> list[str]:
    sentences = []
    ordered = sorted(rows, key=itemgetter("recording", "node_id", "number"))
    for name, of_recording in groupby(ordered, key=itemgetter("recording")):
        gaps = [*of_recording]
        if gaps[0]["evidence"] in SELECTIONS:
            sentences.append(selection_sentence(gaps[0]["evidence"]))
            continue
        sentences += [gap_sentence(gap) for gap in gaps[:_MOST]]
        if len(gaps) > _MOST:
            more = f"{len(gaps) - _MOST:,} more gap{'s' * (len(gaps) > _MOST + 1)}"
            sentences.append(f"the logs of recording {name!r} have {more}: see table log_gaps")
    return sentences


def gap_sentence(gap: Row) -> str:
    log = f"node {gap['node_id']} of recording {gap['recording']!r}"
    if gap["evidence"] == "no_log":
        return f"{log} has no log: what rests on it is unknown"
    if gap["evidence"] == "logger_off":
        why = "kafka.request.logger was off, unless nothing was requested of it"
        return f"{log} has an empty log but others show it ran: {why}; what rests on it is unknown"
    if gap["evidence"] == "filtered":
        return f"{log} lacks all lines of some kind that it must have: what rests on it is unknown"
    after, before = (_time(gap[name]) for name in ("after_at", "before_at"))
    missing = gap["lines_missing"]
    lines = f"{missing:,} line{'s' * (missing > 1)} or more" if missing else "lines"
    if after is None:
        return f"{log} ran before its log begins at {before}: what rests on that is unknown"
    until = f"between {after} and {before}" if before else f"after {after}"
    if gap["evidence"] == "contradiction":
        return f"{log}: lines contradict each other {until}: what rests on them is unknown"
    return f"{log}: {lines} are missing {until} ({gap['evidence']}): what rests on them is unknown"


def _time(at: datetime | None) -> str | None:
    if at is None:
        return None
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"
