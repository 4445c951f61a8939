"""incremental_fetch: the clients whose FETCHes cost most besides records, and why."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from kip_replay.pipelines.page import slowest as report
from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.slowest import Places, Row, name_of
from kip_replay.pipelines.page.view import Slow, Slowest
from kip_replay.replay.incremental_fetch import ClientKind

_COUNTS = """
SELECT recording, count(DISTINCT (node_id, client_id, client_kind)),
  count(*) FILTER (WHERE request_bytes IS NULL OR response_bytes IS NULL)
FROM fetch_session_outcomes
WHERE variant = 'recorded' AND parameter = 'none'
GROUP BY recording"""
#: From this share of FETCHes on that are full, sessions are not at work.
_MOSTLY = 0.5


def slowest(database: DuckDBPyConnection) -> dict[str, Slowest]:
    return report.slowest(database, "costly_fetchers", [], _slow, _COUNTS, _titled)


def _titled(shown: int, clients: int, unknown: int) -> tuple[str, str]:
    of = f"{words.number(shown)} of {words.count(clients, 'client')} of a broker each"
    left = report.left_out(unknown, "FETCH of unknown size", "FETCHes of unknown size")
    note = f"{of}, the most bytes first; ms: of the costliest FETCH, less waiting for data"
    return "Clients whose FETCHes cost most", f"{note}{left}."


def _slow(row: Row, places: Places) -> Slow:
    return Slow(
        row["own_ms"],
        str(row["node_id"]),
        name_of(row["client_id"]),
        "",
        " ".join([_head(row), *_why(row), *_saved(row), _costliest(row)]),
        report.place(row["source_file"], row["line_number"]),
    )


def _head(row: Row) -> str:
    fetches = words.count(row["fetches"], "FETCH", "FETCHes")
    cost = f"cost {words.size(row['overhead_bytes'])} besides records"
    return f"{name_of(row['client_id'])}’s {fetches} to broker {row['node_id']} {cost}."


def _why(row: Row) -> Iterator[str]:
    fetches, full, refused = row["fetches"], row["full_fetches"], row["refused"]
    if (without := row["without_session"]) >= _MOSTLY * fetches:
        yield f"{words.number(without)} request no session (epoch −1) and list every partition."
    elif refused >= _MOSTLY * fetches:
        requested = f"{words.number(refused)} request a session (epoch 0)"
        yield f"{requested} and got none, as from a broker without a free slot."
    else:
        new = words.count(row["new_sessions"], "requests", "request")
        yield f"{words.number(fetches - full)} are incremental, {new} a new session (epoch 0)."
        if refused:
            yield f"{words.count(refused, 'request', 'requests')} for a session got none."
    if errors := row["session_errors"]:
        yield f"{words.count(errors, 'response has', 'responses have')} a session error."


def _saved(row: Row) -> Iterator[str]:
    with_sessions, cost = row["incremental_bytes"], row["overhead_bytes"]
    if with_sessions is None:
        yield "What sessions would save is unknown."
    elif with_sessions < cost:
        less = f"{words.number(100 * (cost - with_sessions) / cost)}{words.SPACE}% less"
        yield f"With every session that is requested, {words.size(with_sessions)}, {less}."
    elif row["client_kind"] == ClientKind.CONSUMER_WITHOUT_SESSIONS:
        yield "Only a client that requests sessions would change that."


def _costliest(row: Row) -> str:
    request, response = words.number(row["request_bytes"]), words.number(row["response_bytes"])
    records = words.number(row["record_bytes"] or 0)
    listed = words.count(row["request_partitions"], "partition")
    sizes = f"{request}{words.SPACE}B and {response}{words.SPACE}B back, {records} of them records"
    return f"The costliest lists {listed}: {sizes}."
