"""Claims of lowest_acked_offset, held against what brokers responded."""

from collections.abc import Sequence

from constructed import Row, accuracy, at, row, rule_steps

from kip_replay.replay.log_tables import MetadataWrites, Requests, Topics
from kip_replay.replay.lowest_acked_offset import RULE as LOWEST_ACKED_OFFSET
from kip_replay.replay.lowest_acked_offset.events import ESTIMATED, HEARTBEAT_INTERVAL, LOWEST_ACKED
from kip_replay.replay.lowest_acked_offset.outcomes import VisibilityOutcome
from kip_replay.replay.records import Verdict
from kip_replay.replay.table import Table

#: A request, and what it returned on a topic.
Line = tuple[Row, Row]
STEPS = rule_steps(LOWEST_ACKED_OFFSET.name)
HEARTBEAT, FETCHED, API_VERSIONS = "heartbeat", "fetch_high_watermark", "api_versions"


def created(name: str, second: float, *topics: tuple[str, int], api: str = "CREATE_TOPICS") -> Row:
    """A write of topics, each with its error."""
    resources = [
        {"resource_type": "topic", "name": topic, "error_code": error} for topic, error in topics
    ]
    usual: Row = {"request_id": name, "node_id": 1, "api_name": api, "error_code": 0}
    return row(MetadataWrites, **usual, received_at=at(second), resources=resources)


def claim(write: str, broker: int, second: float | None, **more: object) -> Row:
    usual: Row = {"rule": LOWEST_ACKED_OFFSET.name, "variant": LOWEST_ACKED}
    usual |= {"request_id": write, "broker_id": broker, "evidence": HEARTBEAT}
    usual["applied_at_latest"] = None if second is None else at(second)
    return row(VisibilityOutcome, **(usual | more))


def metadata(broker: int, second: float, topic: str, error: int, api: str = "METADATA") -> Line:
    """A broker's line on a topic."""
    times = {"dequeued_at": at(second), "built_at": at(second)}
    line = row(Requests, node_id=broker, api_name=api, **times)
    of_line = {name: line[name] for name in ("recording", "request_id", "node_id", "built_at")}
    return line, row(Topics, topic=topic, source=api, error_code=error, **of_line)


def shares_of(
    metric: str, claims: list[Row], writes: list[Row], lines: Sequence[Line]
) -> dict[str, tuple[float, int]]:
    """predicted and sample_count of a metric by evidence."""
    tables: dict[Table, list[Row]] = {
        VisibilityOutcome: claims,
        MetadataWrites: writes,
        Requests: [line for line, _ in lines],
        Topics: [topic for _, topic in lines],
    }
    found = accuracy(STEPS, tables, ["r"], [("r", "r")])
    chosen = {key: r for key, r in found.items() if key[2] == metric}
    for key, r in chosen.items():
        assert (r["recorded"], r["tolerance"], r["passed"]) == (1.0, 0.0, r["predicted"] == 1.0)
        assert (key[3], r["unit"], r["unknown_count"]) == ("evidence", "share", 0)
    return {key[4]: (r["predicted"], r["sample_count"]) for key, r in chosen.items()}


def test_claims_that_brokers_deny() -> None:
    """A later METADATA error 3 denies a claim; one before it, or after the deletion, does not."""
    names = ("denied", "kept", "deleted", "re-created", "cleared", "refused")
    writes = [
        *(created(name, 20, (name, 0)) for name in names[:-1]),
        created("refused", 20, ("refused", 36), ("beside", 0)),
        created("gone", 40, ("deleted", 0), ("re-created", 0), api="DELETE_TOPICS"),
        created("again", 50, ("re-created", 0)),
        # Asked before it was there, as scripts do.
        created("clear", 19, ("cleared", 3), api="DELETE_TOPICS"),
    ]
    claims = [
        *(claim(name, 11, 22) for name in names),
        claim("again", 11, 51),
        # Later evidence, which nobody denied: a share of its own.
        claim("denied", 11, 25, evidence=API_VERSIONS),
        claim("kept", 11, 25, evidence=API_VERSIONS),
        # These claim nothing.
        claim("denied", 11, 20, evidence=FETCHED),
        claim("denied", 12, None),
        claim("denied", 13, 20, verdict=Verdict.UNKNOWN.value),
        claim("denied", 14, 20, variant=ESTIMATED),
        claim("denied", 16, 20, evidence=ESTIMATED),
        claim("denied", 15, 20, parameter=HEARTBEAT_INTERVAL, parameter_value=500),
    ]
    lines = [
        metadata(11, 21, "denied", 3),
        metadata(11, 24, "denied", 3),
        metadata(11, 22, "kept", 3),
        metadata(11, 24, "kept", 0),
        metadata(11, 24, "kept", 5),
        metadata(12, 24, "kept", 3),
        metadata(11, 26, "kept", 3, api="DESCRIBE_CONFIGS"),
        metadata(11, 21, "deleted", 3),
        metadata(11, 41, "deleted", 3),
        # Denied after its second creation: that is no word about the first.
        metadata(11, 21, "re-created", 3),
        metadata(11, 45, "re-created", 3),
        metadata(11, 52, "re-created", 3),
        metadata(11, 23, "cleared", 3),
        metadata(11, 99, "refused", 3),
        *(metadata(broker, 99, "denied", 3) for broker in (12, 13, 14, 15, 16)),
    ]
    held = dict.fromkeys(("kept", "deleted", "re-created"), True)
    held |= dict.fromkeys(("denied", "again", "cleared"), False)
    found = shares_of("claims_no_broker_denied", claims, writes, lines)
    assert found == {HEARTBEAT: (sum(held.values()) / len(held), len(held)), API_VERSIONS: (1.0, 2)}
