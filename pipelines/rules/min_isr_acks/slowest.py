"""min_isr_acks: the slowest PRODUCEs, each with the follower that it waited for."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from kip_replay.pipelines.page import slowest as report
from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.slowest import WORTH_NAMING, Places, Row, after, name_of
from kip_replay.pipelines.page.view import Slow, Slowest

_COUNTS = "SELECT recording, count(*) FROM requests WHERE api_name = 'PRODUCE' GROUP BY recording"
#: An early response that comes no sooner than this share of the recorded one is not early.
_NO_SOONER = 0.9
#: A replay that is not further from what was recorded explains it.
_NEAR_MS = 5.0


def slowest(database: DuckDBPyConnection) -> dict[str, Slowest]:
    view, proofs = "slow_produces", ["last_follower_fetch_id"]
    return report.slowest(database, view, proofs, _slow, _COUNTS, _titled)


def _titled(shown: int, produces: int) -> tuple[str, str]:
    of = f"{words.number(shown)} of {words.count(produces, 'PRODUCE')}"
    note = "from arrival until the response was sent; FETCHes are those in the leader’s log"
    return "The slowest PRODUCEs", f"{of}, {note}."


def _slow(row: Row, places: Places) -> Slow:
    return Slow(
        row["total_ms"],
        str(row["node_id"]),
        name_of(row["client_id"]),
        name_of(row["topic"], ""),
        " ".join([_head(row), *_why(row, places), *_throttled(row), *_early(row)]),
        report.place(row["source_file"], row["line_number"]),
    )


def _head(row: Row) -> str:
    client, moment = name_of(row["client_id"]), report.at(row["received_at"])
    to = f" to {name_of(row['topic'])}-{row['partition']}" if row["topic"] else ""
    if (more := (row["partitions"] or 1) - 1) > 0:
        to += f" and {words.count(more, 'other partition')}"
    offset = row["base_offset"]
    of = "" if offset is None else f" (offset {words.number(offset)})"
    remote = "waiting for followers" if row["acks"] == -1 else "waiting"
    consists = report.parts(
        row["total_ms"],
        [
            ("waiting for a request handler", row["request_queue_ms"]),
            ("being appended", row["local_ms"]),
            (remote, row["remote_ms"]),
            ("waiting for a network thread", row["response_queue_ms"]),
            ("being sent", row["send_ms"]),
        ],
    )
    took = f"took {words.milliseconds(row['total_ms'])}: {consists}"
    return f"{client}’s PRODUCE{to} at {moment}{of} {took}."


def _why(row: Row, places: Places) -> Iterator[str]:
    if row["error_code"]:
        yield f"It got error {row['error_code']}."
    if row["acks"] in (0, 1):
        yield f"With acks={row['acks']} it waits for no follower."
    elif row["remote_ms"] is not None and row["remote_ms"] >= WORTH_NAMING * row["total_ms"]:
        yield from _followers(row, places)


def _followers(row: Row, places: Places) -> Iterator[str]:
    if row["missing_followers"]:
        more = row["missing_followers"] - 1
        others = f" (and {words.count(more, 'other')})" if more else ""
        left = "" if row["error_code"] else _why_not_waited_for(row)
        follower = f"follower {row['missing_follower_id']}{others}, in sync at the append,"
        yield f"No FETCH of {follower} beyond it is in the log before the response{left}."
    if row["last_follower_at"] is None:
        if not row["missing_followers"]:
            yield "Which follower it waited for is not in the log."
        return
    came = after(row["received_at"], row["last_follower_at"])
    source = places[row["recording"], row["last_follower_fetch_id"]]
    offset = words.number(row["last_follower_offset"])
    who = "Follower"
    if row["missing_followers"]:
        who = "Of the others, follower"
    elif row["reason"]:  # lines may be missing
        who = "As far as the log shows, follower"
    follower = f"{who} {row['last_follower_id']} had it last"
    fetch = f"its first FETCH beyond it, of offset {offset} ({source}),"
    yield f"{follower}: {fetch} came after {words.milliseconds(came)}{_handler(row)}{_enough(row)}."
    handled = after(row["received_at"], row["last_follower_handled_at"])
    left_ms = row["recorded_ms"] - handled
    if not row["missing_followers"] and left_ms >= WORTH_NAMING * row["total_ms"]:
        yield f"For the other {words.milliseconds(left_ms)} no FETCH was missing."


def _why_not_waited_for(row: Row) -> str:
    """Of a follower that was in sync: it no longer is where acks=all replayed waits no longer."""
    replayed, recorded = row["acks_all_ms"], row["recorded_ms"]
    if replayed is None:
        return ": why it was not waited for is not in the log"
    if replayed <= recorded + _NEAR_MS:
        return ": it had left the ISR by then"
    return f": acks=all replayed takes {words.milliseconds(replayed)}"


def _handler(row: Row) -> str:
    """Where the FETCH was there, but its handler, which completes the PRODUCE, took long."""
    ended = min(row["last_follower_handled_at"], row["built_at"])
    took = after(row["last_follower_at"], ended)
    long = took >= WORTH_NAMING * row["total_ms"]
    return f", and took {words.milliseconds(took)} to be handled" if long else ""


def _enough(row: Row) -> str:
    other = row["enough_follower_id"]
    if other is None or other == row["last_follower_id"]:
        return ""
    came = after(row["received_at"], row["enough_follower_at"])
    return f"; follower {other}’s had come after {words.milliseconds(came)}"


def _throttled(row: Row) -> Iterator[str]:
    if row["throttle_ms"]:
        yield f"A quota throttles the client for {words.milliseconds(row['throttle_ms'])} more."


def _early(row: Row) -> Iterator[str]:
    if row["acks"] != -1 or row["recorded_ms"] is None:
        return
    early, recorded = row["min_isr_ms"], row["recorded_ms"]
    if early is None:
        why = f": {row['reason']}" if row["reason"] else ""
        yield f"When acks=min.insync.replicas would have responded is unknown{why}."
    elif early < _NO_SOONER * recorded:
        then = f"{words.milliseconds(early)}, not {words.milliseconds(recorded)}"
        yield f"With acks=min.insync.replicas the response would have been ready after {then}."
    else:
        yield "With acks=min.insync.replicas it would have waited as long."
