"""hwm_parking: the advances of the high watermark that a replica learned of last, and why."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from kip_replay.pipelines.page import slowest as report
from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.slowest import WORTH_NAMING, Places, Row, after, name_of
from kip_replay.pipelines.page.view import Slow, Slowest
from kip_replay.replay.hwm_parking import Completion

_COUNTS = """
SELECT recording, count(lag_ms), count(*) FILTER (WHERE verdict = 'unknown')
FROM high_watermark_lag
WHERE variant = 'recorded' AND parameter = 'none' AND phase = 'steady'
GROUP BY recording"""
_RETURNED = {
    Completion.RECORDS: "with the next records",
    Completion.HIGH_WATERMARK: "with the high watermark alone",
    Completion.DRAIN: "empty, when the controller’s thread had stalled",
    Completion.DIVERGING: "with a diverging epoch",
    Completion.SNAPSHOT: "with a snapshot to fetch",
    Completion.ERROR: "with an error",
}


def slowest(database: DuckDBPyConnection) -> dict[str, Slowest]:
    view, proofs = "slow_high_watermarks", ["stale_fetch_id"]
    return report.slowest(database, view, proofs, _slow, _COUNTS, _titled)


def _titled(shown: int, known: int, unknown: int) -> tuple[str, str]:
    of = f"{words.number(shown)} of {words.count(known, 'time')} that a replica learned of one"
    note = f"{of} in the steady phase, until the response that carried it was built"
    return "High watermarks learned of last", f"{note}{report.left_out(unknown, 'unknown one')}."


def _slow(row: Row, places: Places) -> Slow:
    return Slow(
        row["lag_ms"],
        str(row["replica_id"]),
        name_of(row["client_id"], ""),
        "",
        " ".join([_head(row), *_stale(row, places), _fetch(row), *_replayed(row)]),
        report.place(row["source_file"], row["line_number"]),
    )


def _head(row: Row) -> str:
    replica = f"{'Controller' if row['is_voter'] else 'Broker'} {row['replica_id']}"
    moved = f"that controller {row['leader_id']}’s high watermark was"
    offset, moment = words.number(row["high_watermark"]), report.at(row["leader_at"])
    lag = words.milliseconds(row["lag_ms"])
    return f"{replica} learned {lag} late {moved} {offset} at {moment}."


def _stale(row: Row, places: Places) -> Iterator[str]:
    """The FETCH that was responded to meanwhile, with the high watermark before."""
    if row["stale_fetch_id"] is None:
        return
    source = places[row["recording"], row["stale_fetch_id"]]
    wait = f"after {words.milliseconds(row['stale_parked_ms'])}"
    if row["stale_parked_ms"] == 0:
        wait = "at once"
    elif row["stale_completion"] == Completion.TIMEOUT:
        wait += ", its max wait,"
    stale = row["stale_high_watermark"]
    carried = f"still with {words.number(stale)}" if stale >= 0 else "without one"
    yield f"Its FETCH before was returned {wait} {carried} ({source})."


def _fetch(row: Row) -> str:
    came, lag = after(row["leader_at"], row["fetch_at"]), row["lag_ms"]
    when = "was there already"
    if came > 0:
        only = "only " if came >= WORTH_NAMING * lag else ""
        when = f"came {only}{words.milliseconds(came)} after the advance"
        # Parked or not, it was dequeued and handled first.
        handled = lag - came - (row["parked_ms"] or 0)
        if handled >= WORTH_NAMING * lag:
            when += f", was handled within {words.milliseconds(handled)}"
    fetch = f"{'The next' if row['stale_fetch_id'] else 'Its FETCH'}, of offset"
    return f"{fetch} {words.number(row['fetch_offset'])}, {when} and {_returned(row)}."


def _returned(row: Row) -> str:
    completion = Completion(row["completion"])
    how = _RETURNED.get(completion, "")
    if row["decision"] == "immediate" or row["parked_ms"] is None:
        return " ".join(filter(None, ("was not parked, but returned", how)))
    parked = words.milliseconds(row["parked_ms"])
    if completion is Completion.TIMEOUT:
        wait = f"{words.number(row['max_wait_ms'])}{words.SPACE}ms"
        return f"was parked for {parked}, its max wait being {wait}"
    if completion is Completion.UNEXPLAINED:
        return f"was returned after {parked}, which no rule explains"
    return f"was parked for {parked}, until it was returned {how}"


def _replayed(row: Row) -> Iterator[str]:
    with_kip, without = row["with_kip_1166_ms"], row["without_kip_1166_ms"]
    if row["replica_high_watermark"] is not None:
        lag = "an unknown time" if without is None else words.milliseconds(without)
        yield f"It runs KIP-1166; without, it would have been {lag}."
    elif with_kip is None:
        yield "With KIP-1166 it would have been an unknown time."
    else:
        yield f"With KIP-1166 it would have been {words.milliseconds(with_kip)}."
