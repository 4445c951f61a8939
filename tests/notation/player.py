"""Histories of the metadata log as text that reads like KIP-1166, played on ``Leader``.

A history is a line that sets the scene, then a line an event. Left of the arrow stands what
happens, right of it every response of the leader, in the order in which it builds them::

    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    3 fetches 15 knowing -1   -> parked
    2 fetches 15 knowing -1   -> parked | 3: high watermark 15; high watermark 15
    leader appends to 20      -> 3: records 15..20, high watermark 15; 2: records ... | nobody
    500 ms pass               -> nobody

Scene, comma between: ``voters``, ``leader``, ``epoch N starts at OFFSET``, ``log ends at``, and
where needed ``high watermark``, ``log starts at``, ``snapshot ends at``, ``epoch N ends at`` (an
earlier epoch); last the rule. A leader that is not among the voters does not vote.

Events: ``N fetches OFFSET`` (then ``of epoch N`` for the last fetched epoch, ``knowing HIGH
WATERMARK``, ``waiting N ms``); ``N then fetches ...`` also checks that this is what replica N
builds after the responses it received; ``leader appends to``; ``leader drains no batch``;
``leader rolls its segment``; ``leader resigns``; ``N ms pass``.

Responses, semicolon between: ``[N:] records A..B, high watermark H``; ``high watermark H``
(completed because of it); ``timeout, high watermark H``; ``drain, high watermark H``;
``diverging``; ``snapshot``; ``error``. Without a name it is the response to the FETCH of the line,
at once; with one its FETCH was parked. ``parked``, behind them: the FETCH of the line waits.
``nobody``: no responses. ``leader has high watermark H``, last and only where it matters. A bar
parts what holds without and with KIP-1166.

-1 is a high watermark that is not known; a FETCH without ``knowing`` has no such field (below v18).
"""

import re
from typing import Any

from kip_replay.replay.model.raft import NOT_SENT, Completion, Fetch, Leader, Replica, Response

_RULES = {
    "without KIP-1166": (False,),
    "with KIP-1166": (True,),
    "without | with KIP-1166": (False, True),
}
#: Names of groups are those of ``Leader``'s fields.
_CLAUSE = re.compile(
    r"voters (?P<voters>\d+(?: \d+)*)|leader (?P<leader>\d+)"
    r"|epoch (?P<leader_epoch>\d+) starts at (?P<epoch_start_offset>\d+)"
    r"|epoch (?P<earlier_epoch>\d+) ends at (?P<end>\d+)|log ends at (?P<log_end_offset>\d+)"
    r"|log starts at (?P<log_start_offset>\d+)|snapshot ends at (?P<snapshot>\d+)"
    r"|high watermark (?P<high_watermark>-?\d+)"
)
_EVENT = re.compile(
    r"(?P<replica>\d+) (?P<then>then )?fetches (?P<offset>\d+)(?: of epoch (?P<epoch>\d+))?"
    r"(?: knowing (?P<knowing>-?\d+))?(?: waiting (?P<wait_ms>\d+) ms)?"
    r"|leader appends to (?P<log_end>\d+)|(?P<pass_ms>\d+) ms pass"
    r"|leader (?P<leader>drains no batch|rolls its segment|resigns)"
)


def check(text: str) -> None:
    """Play a history under each of its rules; ``AssertionError`` where the leader disagrees."""
    lines = [line for raw in text.splitlines() if (line := raw.partition("#")[0].strip())]
    scene, _, rule = lines[0].rpartition(", ")
    assert rule in _RULES, f"{rule!r} is no rule: {', '.join(_RULES)}"
    for position, hwm_aware in enumerate(_RULES[rule]):
        player = _Player(_leader_of(scene, hwm_aware))
        for line in lines[1:]:
            player.play(line, position)


def _leader_of(scene: str, hwm_aware: bool) -> Leader:
    epoch_ends: dict[int, int] = {}
    values: dict[str, Any] = {}
    for clause in scene.split(", "):
        found = _CLAUSE.fullmatch(clause)
        assert found, f"{clause!r} is nothing of the leader"
        if found["earlier_epoch"]:
            epoch_ends[int(found["earlier_epoch"])] = int(found["end"])
        elif found["voters"]:
            values["voters"] = frozenset(map(int, found["voters"].split()))
        else:
            values |= {name: int(value) for name, value in found.groupdict().items() if value}
    leader, voters = values.pop("leader"), values.pop("voters")
    return Leader(
        hwm_aware=hwm_aware,
        voters=voters - {leader},
        voter_count=len(voters),
        epoch_ends=epoch_ends,
        **values,
    )


class _Player:
    """One leader, the replicas after their responses, and how long the parked still wait."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._replicas: dict[int, Replica] = {}
        self._wait_ms: dict[int, int] = {}

    def play(self, line: str, position: int) -> None:
        happens, _, outcomes = (" ".join(part.split()) for part in line.partition("->"))
        event = _EVENT.fullmatch(happens)
        assert event, f"{happens!r} is no event"
        responses = self._cause(event)
        for response in responses:
            self._replicas[response.fetch.replica_id].receive(response, self._leader)
        expected = [side.strip() for side in outcomes.split("|")]
        found = list(map(_text, responses))
        if event["replica"] and len(self._wait_ms) in self._leader.parked:
            found.append("parked")
        found = found or ["nobody"]
        if "leader has" in expected[position % len(expected)]:
            found.append(f"leader has high watermark {self._leader.high_watermark}")
        assert "; ".join(found) == expected[position % len(expected)], (
            f"{line}, {'with' if self._leader.hwm_aware else 'without'} KIP-1166"
        )

    def _cause(self, event: re.Match[str]) -> list[Response]:
        if event["replica"]:
            return self._fetch(event)
        if event["log_end"] or event["leader"] == "drains no batch":
            return self._leader.append(int(event["log_end"] or 0))
        if event["pass_ms"]:
            return self._pass(int(event["pass_ms"]))
        if event["leader"] == "resigns":
            return self._leader.resign()
        self._leader.segment += 1
        return []

    def _fetch(self, event: re.Match[str]) -> list[Response]:
        replica_id, max_wait_ms = int(event["replica"]), int(event["wait_ms"] or 500)
        sent = Replica(
            int(event["offset"]),
            int(event["epoch"] or self._leader.leader_epoch),
            int(event["knowing"] or NOT_SENT),
        )
        if event["then"]:
            assert self._replicas[replica_id] == sent, event[0]
        self._replicas[replica_id] = sent
        token = len(self._wait_ms) + 1
        self._wait_ms[token] = max_wait_ms
        values = (sent.fetch_offset, sent.last_fetched_epoch, sent.high_watermark)
        return self._leader.fetch(Fetch(replica_id, *values, max_wait_ms * 1000, token))

    def _pass(self, milliseconds: int) -> list[Response]:
        responses: list[Response] = []
        for token in list(self._leader.parked):
            self._wait_ms[token] -= milliseconds
            if self._wait_ms[token] <= 0:
                responses += self._leader.expire(token)
        return responses


def _text(response: Response) -> str:
    """The response in the notation, with its name if it was parked."""
    completion, carried = response.completion, f"high watermark {response.high_watermark}"
    text = completion.value
    if completion is Completion.RECORDS:
        text += f" {response.fetch.fetch_offset}..{response.log_end_offset}, {carried}"
    elif completion is Completion.HIGH_WATERMARK:
        text = carried
    elif completion in (Completion.TIMEOUT, Completion.DRAIN):
        text += f", {carried}"
    return f"{response.fetch.replica_id}: {text}" if response.parked else text
