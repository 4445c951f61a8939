"""lowest_acked_offset: the metadata writes that some broker applied last, and what shows it."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from kip_replay.pipelines.page import slowest as report
from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.slowest import Places, Row, after, name_of
from kip_replay.pipelines.page.view import Slow, Slowest

_COUNTS = """
SELECT recording, count(stale_window_ms), count(*) FILTER (WHERE verdict = 'unknown')
FROM metadata_write_outcomes
WHERE variant = 'estimated' AND parameter = 'none'
GROUP BY recording"""
_PROOFS = ("learned_request_id", "shown_request_id")


def slowest(database: DuckDBPyConnection) -> dict[str, Slowest]:
    return report.slowest(database, "slow_metadata_writes", _PROOFS, _slow, _COUNTS, _titled)


def _titled(shown: int, known: int, unknown: int) -> tuple[str, str]:
    of = f"{words.number(shown)} of {words.count(known, 'metadata write')}"
    left = report.left_out(unknown, "unknown one")
    note = f"{of}, from the response until the last broker showed it, estimated{left}."
    return "Metadata writes that were stale for longest", note


def _slow(row: Row, places: Places) -> Slow:
    return Slow(
        row["stale_ms"],
        str(row["last_broker_id"]),
        name_of(row["client_id"]),
        name_of(row["resource_name"], "") if row["resource_type"] == "topic" else "",
        " ".join([_head(row), *_learned(row, places), *_shown(row, places), *_waiting(row)]),
        report.place(row["source_file"], row["line_number"]),
    )


def _head(row: Row) -> str:
    resource, via = "", ""
    if row["resource_name"]:
        resource = f" of {row['resource_type']} {name_of(row['resource_name'])}"
    if row["via_broker"] is not None:
        via = f" through broker {row['via_broker']}"
    write = f"{name_of(row['client_id'])}’s {row['api_name']}{resource}{via}"
    offset, moment = words.number(row["metadata_offset"]), report.at(row["responded_at"])
    broker, stale = row["last_broker_id"], words.milliseconds(row["stale_ms"])
    until = ", until it was fenced" if row["was_fenced"] else ""
    after_it = f"After the response to {write} (offset {offset}) at {moment}"
    return f"{after_it}, broker {broker} was stale for {stale}{until}, estimated."


def _learned(row: Row, places: Places) -> Iterator[str]:
    """The FETCH response that carried the commit."""
    if row["learned_request_id"] is None:
        yield "The FETCH by which it learned of the commit is not in the log."
        return
    source = places[row["recording"], row["learned_request_id"]]
    learned = after(row["responded_at"], row["learned_at"])
    when = f"{words.milliseconds(abs(learned))} {'later' if learned >= 0 else 'earlier'}"
    handled = words.milliseconds(row["stale_ms"] - learned)
    handling = "" if row["was_fenced"] else f"; handling that took {handled}"
    yield f"Its FETCH that carried the commit was returned {when} ({source}){handling}."


def _shown(row: Row, places: Places) -> Iterator[str]:
    if row["shown_request_id"] is None:
        yield "No heartbeat in the logs shows it."
        return
    source = places[row["recording"], row["shown_request_id"]]
    when = f"went to controller {row['shown_to']}"  # whose clock may be another
    if row["shown_to"] == row["controller_id"]:
        when = f"came after {words.milliseconds(after(row['responded_at'], row['shown_at']))}"
    offset = words.number(row["shown_offset"])
    yield f"The first heartbeat that shows it, at offset {offset}, {when} ({source})."


def _waiting(row: Row) -> Iterator[str]:
    wait = f"{words.milliseconds(row['waiting_ms'])} with the heartbeats in the log"
    if row["interval_waiting_ms"] is not None:
        interval = words.milliseconds(row["interval_ms"])
        wait += f", {words.milliseconds(row['interval_waiting_ms'])} with one every {interval}"
    yield f"Waiting for the lowest acknowledged offset takes the client {wait}."
