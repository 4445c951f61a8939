"""The notation: what a history may contain, and what it means.

A history is a line that sets the scene, then a line an event. Left of the arrow stands what
happens, right of it every response of the leader, in the order in which it builds them::

    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    3 fetches 15 knowing -1   -> parked
    2 fetches 15 knowing -1   -> parked | 3: high watermark 15; high watermark 15
    leader appends to 20      -> 3: records 15..20, high watermark 15; 2: records ... | nobody
    500 ms pass               -> nobody

Scene, in any order, comma between: ``voters``, ``leader``, ``epoch N starts at OFFSET``, ``log ends
at``, and where needed ``high watermark``, ``log starts at``, ``snapshot ends at``, ``epoch N ends
at`` (an earlier epoch); last the rule. A leader that is not among the voters does not vote.

Events: ``N fetches OFFSET`` (and ``knowing HIGH WATERMARK``, ``of epoch N`` for the last fetched
epoch, ``waiting N ms``); ``N then fetches ...`` also checks that this is what replica N builds
after the responses it received; ``leader appends to``; ``leader drains no batch``; ``leader
rolls its segment``; ``leader resigns``; ``N ms pass``.

Responses, semicolon between: ``[N:] records A..B, high watermark H``; ``high watermark H``
(completed because of it); ``timeout, high watermark H``; ``drain, high watermark H``;
``diverging``; ``snapshot``; ``error``. Without a name it is the response to the FETCH of the line,
at once; with one it is another's, who was parked. ``parked``: the FETCH of the line waits.
``nobody``: no responses. ``leader has high watermark H``: what the leader has by then. A bar parts
what holds without and with KIP-1166.

-1 is a high watermark that is not known; a FETCH without ``knowing`` has no such field (below v18).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kip_replay.replay.hwm_parking import NOT_SENT, UNKNOWN_OFFSET


class NotationError(ValueError):
    """A history that can't be read: which line, and what was expected."""


@dataclass
class Scene:
    """The leader at the beginning; ``rules`` are the values of hwm_aware to play under."""

    voters: tuple[int, ...] = ()
    leader: int = -1
    epoch: int = -1
    epoch_start_offset: int = -1
    log_end_offset: int = -1
    log_start_offset: int = 0
    snapshot: int | None = None
    high_watermark: int = UNKNOWN_OFFSET
    epoch_ends: dict[int, int] = field(default_factory=dict)
    rules: tuple[bool, ...] = ()


class Fetches(NamedTuple):
    """A replica FETCHes; ``is_next`` if that is to follow from its earlier responses."""

    replica_id: int
    fetch_offset: int
    high_watermark: int
    last_fetched_epoch: int | None
    max_wait_ms: int
    is_next: bool


class Appends(NamedTuple):
    """The leader appends."""

    log_end_offset: int


class DrainsNoBatch(NamedTuple):
    """The leader drains the accumulator before it may."""


class RollsSegment(NamedTuple):
    """The leader starts a new segment."""


class Resigns(NamedTuple):
    """The leader stops leading."""


class Passes(NamedTuple):
    """Time passes."""

    milliseconds: int


Event = Fetches | Appends | DrainsNoBatch | RollsSegment | Resigns | Passes


class Completed(NamedTuple):
    """A response as the notation has it; what it leaves out is None."""

    replica_id: int
    completion: str
    was_parked: bool
    records: tuple[int, int] | None = None
    high_watermark: int | None = None

    def __str__(self) -> str:
        """The response in the notation, always with its name."""
        parts = [self.completion.replace("_", " ")]
        if self.records is not None:
            parts[0] += f" {self.records[0]}..{self.records[1]}"
        if self.completion == "high_watermark":
            parts[0] += f" {self.high_watermark}"
        elif self.high_watermark is not None:
            parts.append(f"high watermark {self.high_watermark}")
        return f"{self.replica_id}: {', '.join(parts)}" + ("" if self.was_parked else " at once")


class Outcome(NamedTuple):
    """Everything that an event causes under one rule."""

    responses: tuple[Completed, ...]
    leader_high_watermark: int | None


class Step(NamedTuple):
    """A line: an event and its outcome under each rule."""

    number: int
    text: str
    event: Event
    outcomes: tuple[Outcome, ...]


class History(NamedTuple):
    """A scene and what happens in it."""

    scene: Scene
    steps: tuple[Step, ...]


def parse(text: str) -> History:
    """Read a history; raises ``NotationError``."""
    lines = [
        (number, line)
        for number, raw in enumerate(text.splitlines(), start=1)
        if (line := raw.partition("#")[0].strip())
    ]
    if not lines:
        raise NotationError("a history begins with its scene: voters ..., leader ..., ...")
    (number, first), *rest = lines
    scene = _read_scene(number, first)
    return History(scene, tuple(_read_step(number, line, scene) for number, line in rest))


# --- the scene -----------------------------------------------------------------------------------

_RULES = {
    "without KIP-1166": (False,),
    "with KIP-1166": (True,),
    "without | with KIP-1166": (False, True),
}


def _voters(scene: Scene, ids: str) -> None:
    scene.voters = tuple(map(int, ids.split()))


def _leader(scene: Scene, leader: str) -> None:
    scene.leader = int(leader)


def _epoch(scene: Scene, epoch: str, start: str) -> None:
    scene.epoch, scene.epoch_start_offset = int(epoch), int(start)


def _earlier_epoch(scene: Scene, epoch: str, end: str) -> None:
    scene.epoch_ends[int(epoch)] = int(end)


def _log_end(scene: Scene, end: str) -> None:
    scene.log_end_offset = int(end)


def _log_start(scene: Scene, start: str) -> None:
    scene.log_start_offset = int(start)


def _snapshot(scene: Scene, end: str) -> None:
    scene.snapshot = int(end)


def _high_watermark(scene: Scene, high_watermark: str) -> None:
    scene.high_watermark = int(high_watermark)


_CLAUSES: dict[str, Callable[..., None]] = {
    r"voters ((?:\d+ ?)+)": _voters,
    r"leader (\d+)": _leader,
    r"epoch (\d+) starts at (\d+)": _epoch,
    r"epoch (\d+) ends at (\d+)": _earlier_epoch,
    r"log ends at (\d+)": _log_end,
    r"log starts at (\d+)": _log_start,
    r"snapshot ends at (\d+)": _snapshot,
    r"high watermark (-?\d+)": _high_watermark,
}


def _read_scene(number: int, line: str) -> Scene:
    scene = Scene()
    for clause in (clause.strip() for clause in line.split(",")):
        if clause in _RULES:
            scene.rules = _RULES[clause]
        else:
            _apply_clause(number, clause, scene)
    needed = {
        "voters": scene.voters,
        "leader": scene.leader >= 0,
        "epoch N starts at": scene.epoch >= 0,
        "log ends at": scene.log_end_offset >= 0,
        "a rule (with KIP-1166, ...)": scene.rules,
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise NotationError(f"line {number}: the scene lacks {', '.join(missing)}")
    return scene


def _apply_clause(number: int, clause: str, scene: Scene) -> None:
    for pattern, apply in _CLAUSES.items():
        if found := re.fullmatch(pattern, clause):
            apply(scene, *found.groups())
            return
    raise NotationError(f"line {number}: {clause!r} is nothing of the leader")


# --- events --------------------------------------------------------------------------------------

_FETCHES = re.compile(
    r"(?P<replica>\d+) (?P<next>then )?fetches (?P<offset>\d+)"
    r"(?: of epoch (?P<epoch>\d+))?(?: knowing (?P<hwm>-?\d+))?(?: waiting (?P<wait>\d+) ms)?"
)
_OTHERS: dict[str, Callable[..., Event]] = {
    r"leader appends to (\d+)": lambda end: Appends(int(end)),
    r"leader drains no batch": DrainsNoBatch,
    r"leader rolls its segment": RollsSegment,
    r"leader resigns": Resigns,
    r"(\d+) ms pass": lambda wait: Passes(int(wait)),
}


def _read_step(number: int, line: str, scene: Scene) -> Step:
    happens, arrow, right = line.partition("->")
    if not arrow:
        raise NotationError(f"line {number}: no '->' (if no response follows: '-> nobody')")
    event = _read_event(number, happens.strip())
    sides = [side.strip() for side in right.split("|")]
    if len(sides) == 1:
        sides *= len(scene.rules)
    if len(sides) != len(scene.rules):
        raise NotationError(
            f"line {number}: {len(sides)} outcomes, but the scene has {len(scene.rules)} rules"
        )
    outcomes = tuple(_read_outcome(number, side, event) for side in sides)
    return Step(number, line, event, outcomes)


def _read_event(number: int, text: str) -> Event:
    if found := _FETCHES.fullmatch(text):
        return Fetches(
            int(found["replica"]),
            int(found["offset"]),
            NOT_SENT if found["hwm"] is None else int(found["hwm"]),
            None if found["epoch"] is None else int(found["epoch"]),
            500 if found["wait"] is None else int(found["wait"]),
            found["next"] is not None,
        )
    for pattern, event in _OTHERS.items():
        if found := re.fullmatch(pattern, text):
            return event(*found.groups())
    raise NotationError(
        f"line {number}: {text!r} is no event (N fetches ..., leader appends to ...,"
        " leader drains no batch, leader rolls its segment, leader resigns, N ms pass)"
    )


# --- outcomes ------------------------------------------------------------------------------------

_RESPONSE = re.compile(
    r"(?:(?P<replica>\d+): )?"
    r"(?:(?P<records>records (?P<start>\d+)\.\.(?P<end>\d+), high watermark (?P<r_hwm>-?\d+))"
    r"|(?P<timeout>timeout, high watermark (?P<t_hwm>-?\d+))"
    r"|(?P<drain>drain, high watermark (?P<d_hwm>-?\d+))"
    r"|(?P<high_watermark>high watermark (?P<h_hwm>-?\d+))"
    r"|(?P<diverging>diverging)|(?P<snapshot>snapshot)|(?P<error>error))"
)
_COMPLETIONS = ("records", "timeout", "drain", "high_watermark", "diverging", "snapshot", "error")
_LEADER_HAS = re.compile(r"leader has high watermark (-?\d+)")


def _read_outcome(number: int, text: str, event: Event) -> Outcome:
    responses: list[Completed] = []
    has: int | None = None
    for part in (part.strip() for part in text.split(";")):
        if found := _LEADER_HAS.fullmatch(part):
            has = int(found[1])
        elif part == "parked":
            if not isinstance(event, Fetches):
                raise NotationError(f"line {number}: 'parked' belongs to a FETCH")
        elif part != "nobody":
            responses.append(_read_response(number, part, event))
    _check_own_response(number, text, event, responses)
    return Outcome(tuple(responses), has)


def _read_response(number: int, text: str, event: Event) -> Completed:
    found = _RESPONSE.fullmatch(text)
    if found is None:
        raise NotationError(f"line {number}: {text!r} is no response")
    own = event.replica_id if isinstance(event, Fetches) else None
    replica_id = own if found["replica"] is None else int(found["replica"])
    if replica_id is None:
        raise NotationError(f"line {number}: whose response is {text!r}?")
    completion = next(name for name in _COMPLETIONS if found[name] is not None)
    high_watermark = found["r_hwm"] or found["t_hwm"] or found["d_hwm"] or found["h_hwm"]
    return Completed(
        replica_id,
        completion,
        was_parked=replica_id != own,
        records=(int(found["start"]), int(found["end"])) if completion == "records" else None,
        high_watermark=None if high_watermark is None else int(high_watermark),
    )


def _check_own_response(number: int, text: str, event: Event, responses: list[Completed]) -> None:
    """A FETCH is either parked or completed, and the line has which."""
    if not isinstance(event, Fetches):
        return
    own = sum(each.replica_id == event.replica_id for each in responses)
    if own + ("parked" in [part.strip() for part in text.split(";")]) != 1:
        raise NotationError(f"line {number}: {event.replica_id} needs 'parked' or one response")
