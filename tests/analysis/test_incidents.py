"""Incidents against the truth beside recordings, and a plain reader of their raw lines.

``events.jsonl`` has what was done to the cluster, ``members.jsonl`` what members of groups were
assigned and what was revoked, on the clock of the logs.
"""

import gzip
import json
import lzma
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ran import made_once
from small_logs import REPOSITORY, folder_of

from kip_replay.jobs._cli import read_config
from kip_replay.pipelines.analysis.health import find_health
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.log_gaps import find_log_gaps
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import Incidents

pytestmark = pytest.mark.slow  # eleven recordings are read
Row = dict[str, Any]
OFFICE = REPOSITORY / "tests" / "data" / "office-4.1"
ILL = (OFFICE.name, "acks-not-enough", "freeze-4.0", "freeze-4.1", "failover-4.0", "mixed-4.2")
QUIET = ("metadata-4.0", "sessions-on", "sessions-off", "racks-aware", "racks-leader")
APIS = "BROKER_HEARTBEAT|METADATA|END_QUORUM_EPOCH|CONTROLLER_REGISTRATION"
LINE = re.compile(rf'^\[(.{{23}})\].*"requestApiKeyName":"({APIS})"')
#: How far from the truth an incident of a kind may begin or end, in seconds.
WITHIN = {"node_froze": 0.5, "node_restarted": 0.2, "rolling_restart": 0.2, "rebalance": 0.2}
WITHIN |= {"offline_partitions": 0.2}


class Span(NamedTuple):
    kind: str
    subject: str
    is_planned: bool
    begin: float
    end: float


def place(recording: str) -> Path:
    return OFFICE if recording == OFFICE.name else folder_of(recording)


def noted(recording: str, file: str) -> list[Row]:
    path = place(recording) / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@cache
def lines(recording: str) -> list[tuple[float, str, Row, Row]]:
    """Arrival, in seconds since 1970, API and bodies of lines, by arrival."""
    read = list[tuple[float, str, Row, Row]]()
    for log in place(recording).glob("*-*.log.*"):
        with (lzma if log.suffix == ".xz" else gzip).open(log, "rt") as text:
            for line in filter(None, map(LINE.match, text)):
                body, _ = json.JSONDecoder().raw_decode(line.string, line.string.index("{"))
                stamp = datetime.strptime(f"{line[1]}+0000", "%Y-%m-%d %H:%M:%S,%f%z").timestamp()
                at = stamp - body["totalTimeMs"] / 1000
                read.append((at, line[2], body["request"], body["response"]))
    return sorted(read, key=itemgetter(0))


def first(recording: str, since: float, api: str, **fields: object) -> float:
    """When the first line came since then whose bodies have these fields."""
    later = ((at, {**q, **s}) for at, of_api, q, s in lines(recording) if of_api == api)
    return next(at for at, of in later if at >= since and fields.items() <= of.items())


def of_nodes(recording: str) -> Iterator[Span]:
    """Frozen between two signals; stopped, from the first line that shows it until it is back."""
    begun, since, beat, handovers = 0.0, 0.0, "BROKER_HEARTBEAT", list[Span]()
    for event in noted(recording, "events.jsonl"):
        words, at = event["event"].split(), event["at"]
        node = event.get(words[0]) or next((int(word) for word in words if word.isdigit()), 0)
        if words[0] == "SIGSTOP" or words[-1] == "frozen":
            begun = at
        elif words[0] == "SIGCONT" or words[-1] == "thawed":
            yield Span("node_froze", str(node), False, begun, at)
        elif words[0] == "broker" and words[-1] == "started":
            begun = first(recording, 0, beat, brokerId=node, wantShutDown=True)
            end = first(recording, at, beat, brokerId=node, isFenced=False)
            yield Span("node_restarted", str(node), True, begun, end)
        elif words[0] == "controller" and words[-1] == "started":
            begun = first(recording, since, "END_QUORUM_EPOCH")
            since = first(recording, at, "CONTROLLER_REGISTRATION", controllerId=node)
            handovers.append(Span("node_restarted", str(node), True, begun, since))
    if len(handovers) > 1:
        handovers = [Span("rolling_restart", "", True, handovers[0].begin, since)]
    yield from handovers


def offline_partitions(recording: str) -> Iterator[Span]:
    """From the first METADATA without a leader until the first with one of a newer epoch, which no
    broker says that has not heard of it; all that overlap."""
    begun, restarts = dict[str, Any](), [of for of in of_nodes(recording) if of.is_planned]
    found = list[Span]()
    of_api = (of for of in lines(recording) if of[1] == "METADATA")
    for at, topic in ((at, topic) for at, _, _, response in of_api for topic in response["topics"]):
        for of in topic["partitions"]:
            name = f"{topic['name']}-{of['partitionIndex']}"
            if of["errorCode"] == 5:  # LEADER_NOT_AVAILABLE
                begun.setdefault(name, (at, of["leaderEpoch"]))
            elif name in begun and of["leaderEpoch"] > begun[name][1]:
                begin, _ = begun.pop(name)
                is_planned = any(of.begin < begin < of.end for of in restarts)
                found.append(Span("offline_partitions", name, is_planned, begin, at))
    for of in found:
        end = max(other.end for other in found if other.begin <= of.end and other.end >= of.begin)
        yield of._replace(end=end)


def rebalances(recording: str) -> Iterator[Span]:
    """From when the first that stays loses its partitions until the last has new ones."""
    of_group = itemgetter("group")
    for group, of in groupby(sorted(noted(recording, "members.jsonl"), key=of_group), of_group):
        moves = [move for move in of if move["what"] != "closed"]
        last = [*{move["member"]: move for move in moves}.values()]
        # What a member revokes last, it revokes as it leaves.
        stay = [m for m in moves if m["what"].startswith("assigned") or m not in last]
        runs = [[*run] for _, run in groupby(stay, lambda move: move["what"][0])]
        for before, after in pairwise(runs):
            if after[0]["what"].startswith("assigned"):
                yield Span("rebalance", group, False, before[0]["at"], after[-1]["at"])


def truth(recording: str) -> list[Span]:
    of = (*of_nodes(recording), *offline_partitions(recording), *rebalances(recording))
    return sorted(of, key=itemgetter(3, 1))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """Incidents of each recording, of what was logged: nothing is replayed."""

    def make(folder: Path) -> None:
        engine, read = Local(Warehouse(folder)), [load_recording(place(of)) for of in ILL + QUIET]
        ingest(read, engine, say=str)
        find_log_gaps(engine, {of.name: of.voters for of in read}, is_final=True)
        find_health(engine, [*ILL, *QUIET], RULES, read_config(None, []), str)

    warehouse = Warehouse(made_once(tmp_path_factory, "incidents", make))
    return {of: warehouse.rows(Incidents, [of]).to_pylist() for of in ILL + QUIET}


def spans(rows: list[Row], kind: str) -> Iterator[Span]:
    for row in (row for row in rows if row["kind"] == kind):
        times = [row["begin_at"].timestamp(), row["end_at"] and row["end_at"].timestamp()]
        nodes = [""] if kind == "rolling_restart" else [str(row["node_id"])]
        of_node = kind not in ("rebalance", "offline_partitions")
        for subject in nodes if of_node else row["subjects"]:
            yield Span(kind, subject, row["is_planned"], *times)


@pytest.mark.parametrize("kind", WITHIN)
@pytest.mark.parametrize("recording", ILL)
def test_incidents_are_what_happened(told: dict[str, list[Row]], recording: str, kind: str) -> None:
    happened = [of for of in truth(recording) if of.kind == kind]
    found = sorted(spans(told[recording], kind), key=itemgetter(3, 1))
    assert [of[1:3] for of in found] == [of[1:3] for of in happened]
    for is_told, was in zip(found, happened, strict=True):
        assert is_told[3:] == pytest.approx(was[3:], abs=WITHIN[kind]), was


def test_the_office_had_bad_days() -> None:
    """Counted by hand: a truth of nothing would be told by nothing."""
    counts = [[of.kind for of in truth(OFFICE.name)].count(kind) for kind in WITHIN]
    assert counts == [1, 1, 1, 3, 2]


def test_a_rebalance_has_who_caused_it_and_how(told: dict[str, list[Row]]) -> None:
    how = {"started": "join", "closes": "leave", "killed": "lost"}
    events = [of for of in noted(OFFICE.name, "events.jsonl") if "member" in of]
    did = [(how[of["event"].split()[1]], of["member"]) for of in events[3:]]
    rows = [row for row in told[OFFICE.name] if row["kind"] == "rebalance"]
    assert [(row["cause"], row["caused_by"]) for row in rows] == did


@pytest.mark.parametrize("recording", QUIET)
def test_a_quiet_recording_has_none(told: dict[str, list[Row]], recording: str) -> None:
    assert told[recording] == []
