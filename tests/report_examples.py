"""Recordings with something to say on every rule, as plain values; no figure is a real one."""

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from kip_replay.jobs._config import read_config
from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.values import Curve, Percentiles, RuleFigures, Traffic
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.report.page import text_of
from kip_replay.pipelines.rules.hwm_parking import figures as hwm_parking
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.pipelines.rules.incremental_fetch import figures as incremental_fetch
from kip_replay.pipelines.rules.lowest_acked_offset import figures as lowest_acked_offset
from kip_replay.pipelines.rules.min_isr_acks import figures as min_isr_acks
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.outcomes import RECORDED

#: Blocks of time of each.
BLOCKS = 16
#: Limits as they are delivered.
CONFIG = read_config(None, [])
ACKS, MIN_ISR = "acks_all", "acks_min_insync_replicas"
ESTIMATED, LOWEST, FINEST = "estimated", "lowest_acked_offset", "finest_evidence"
CLASSES = (
    hwm_parking.Figures,
    incremental_fetch.Figures,
    min_isr_acks.Figures,
    lowest_acked_offset.Figures,
)


def plain(text: str) -> str:
    """Text whose no-break spaces are spaces."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


class Parsed(HTMLParser):
    """Elements with the names of their attributes, attribute values, and the text between."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.structure: list[tuple[str, ...]] = []
        self.values: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.structure.append((tag, *(name for name, _ in attrs)))
        self.values += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.structure.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def html(of: Report) -> str:
    return text_of(of, CONFIG, "html")


def spread(p50: float, unknown: int = 0, count: int = 100) -> Percentiles:
    """Percentiles whose intervals reach a tenth down and up."""
    values = {"p50": p50, "p90": p50 * 2, "p99": p50 * 4}
    within = {name: Interval(of * 0.9, of * 1.1) for name, of in values.items()}
    return Percentiles(count, unknown, *values.values(), p50 * 6, within)


def evenly(fetches: int, size: int) -> tuple[tuple[int, ...], ...]:
    """So many FETCHes and bytes both ways in every block."""
    every = range(BLOCKS)
    shares = [[of // BLOCKS + (n < of % BLOCKS) for n in every] for of in (fetches, 0, size)]
    return tuple(map(tuple, shares))


def line(p50: float) -> Curve:
    return Curve(p50 / 3, ((p50, 0.5), (p50 * 6, 1.0)))


def verdict(variant: str, n: int, reason: str | None = None, **more: Any) -> dict[str, Any]:
    row = {"variant": variant, "what": "what", "reason": reason, "n": n}
    return row | {"verdict": "unknown" if reason else "replayed"} | more


# --- hwm_parking ---------------------------------------------------------------------------------

KINDS = ("broker", "voter")


def lag(variant: str, p50: float, at: int | None = None, kinds: tuple[str, ...] = KINDS) -> Any:
    return {("high_watermark_lag", variant, "replica_kind", k, at): spread(p50) for k in kinds}


def fetches(variant: str, n: int, at: int | None = None) -> Any:
    sizes = {"request_bytes": n * 160, "response_bytes": n * 200, "span_s": 60.0}
    found = Traffic(n, n, **sizes, per_block=evenly(n, n * 360))
    return {(variant, kind, at): found for kind in KINDS}


def hwm(name: str = "one", own: Protocol = Protocol.WITHOUT) -> hwm_parking.Figures:
    slow, fast = (328.2, 450), (1.2, 920)
    recorded = fast if own is Protocol.WITH else slow
    share = {Protocol.WITH: 900, Protocol.MIXED: 450}.get(own, 0)
    counts = {"what": "responses", "has_high_watermark": share, "unexplained": 4}
    none = {**counts, "has_high_watermark": 0, "unexplained": 0, "verdict": "not_applicable"}
    lines = ((RECORDED, recorded), (WITHOUT_KIP, slow), (WITH_KIP, fast))
    verdicts = [verdict(RECORDED, 800, **counts), verdict(RECORDED, 3, "the log ended")]
    verdicts.append(verdict(RECORDED, 100, "x", **none))
    return hwm_parking.Figures(
        name,
        "Kafka 4.0.0",
        {k: v for variant, (p50, _) in lines for k, v in lag(variant, p50).items()}
        | lag(WITHOUT_KIP, 120.0, 100)
        | lag(WITHOUT_KIP, 160.0, 200)
        | lag(WITH_KIP, 1.3, 100),
        {("high_watermark_lag", v, kind): line(p50) for v, (p50, _) in lines for kind in KINDS},
        {k: v for variant, (_, n) in lines for k, v in fetches(variant, n).items()}
        | fetches(WITHOUT_KIP, 4000, 100)
        | fetches(WITHOUT_KIP, 1200, 200)
        | fetches(WITH_KIP, 3000, 100),
        {
            "verdicts": [] if own is Protocol.UNKNOWN else verdicts,
            "max_wait": [{"least": 500, "most": 500}],
        },
    )


# --- incremental_fetch ---------------------------------------------------------------------------


def sessions(listed: int, bytes_each: int) -> Traffic:
    """600 FETCHes in a minute, of ``listed`` partitions and ``bytes_each`` bytes each way."""
    both = (600 * listed, 600 * listed, 600 * bytes_each, 600 * bytes_each + 60_000)
    blocks = evenly(600, both[2] + both[3])
    return Traffic(600, 600, *both, record_bytes=60_000, span_s=60.0, per_block=blocks)


def event(name: str, n: int, at: int | None = None) -> dict[str, Any]:
    return {"variant": "incremental", "at": at, "event": name, "n": n}


def peak(sessions: int, node: int = 11) -> dict[str, Any]:
    """A broker that held so many sessions at once, of which no shard had more than its share."""
    return {"node_id": node, "peak_sessions": sessions, "slots": -(-sessions // 8) * 8}


def fetch(name: str = "one") -> incremental_fetch.Figures:
    full, few, draft = sessions(64, 2000), sessions(3, 150), sessions(4, 180)
    by_variant = {RECORDED: few, "full": full, "incremental": few, "incremental_draft": draft}
    traffic = {
        (v, kind, None): t for v, t in by_variant.items() for kind in ("follower", "consumer")
    }
    swept = {0: (full, full), 8: (few, full), 16: (few, few)}
    for at, (follower, consumer) in swept.items():
        traffic["incremental", "follower", at] = follower
        traffic["incremental", "consumer", at] = consumer
    none = {"what": "fetches", "incremental": 0, "equal": 0, "compared": 0}
    began = "the session began before the log"
    verdicts = [
        verdict(RECORDED, 700, **{**none, "incremental": 600}),
        verdict("incremental", 595, **{**none, "equal": 590, "compared": 600}),
        *(verdict(variant, 5, began, **none) for variant in ("full", "incremental")),
        verdict("full", 1, "a session error was answered", **none, verdict="not_applicable"),
    ]
    events = [event("created", 12), event("refused", 40, 0), event("created", 12, 8)]
    events += [event("evicted", 2, 8), event("created", 12, 16)]
    rows = {"verdicts": verdicts, "events": events, "peaks": [peak(12)]}
    rows["turned_away"] = [{"refused": 0, "evicted": 0}]
    rows["in_force"] = [{"in_force": 12}]
    return incremental_fetch.Figures(name, None, traffic=traffic, rows=rows)


# --- min_isr_acks --------------------------------------------------------------------------------


def acks(name: str = "one", latencies: dict[str, Percentiles] | None = None) -> Any:
    usual = {RECORDED: spread(241.0), ACKS: spread(240.5), MIN_ISR: spread(13.5, unknown=2)}
    latencies = latencies or usual
    spreads = {("exposure", MIN_ISR, "all", "all", None): spread(113.6)}
    of_all = ("closed_loop_latency", "produce_latency", "produce_request_latency")
    for variant, found in latencies.items():
        spreads |= {(metric, variant, "all", "all", None): found for metric in of_all}
        for node in ("11", "12"):
            spreads["closed_loop_latency", variant, "node_id", node, None] = found
    spreads["exposure", MIN_ISR, "node_id", "11", None] = spread(113.6)
    for at, wait in ((1, 0.4), (2, 13.5), (3, 240.5), (4, 240.5)):
        spreads["produce_latency", MIN_ISR, "all", "all", at] = spread(wait)
        spreads["exposure", MIN_ISR, "all", "all", at] = spread(300.0 / at)
    refused = {3: 2, 4: 8}
    curves = {("closed_loop_latency", v, "all"): line(s.p50 or 0.0) for v, s in latencies.items()}
    return min_isr_acks.Figures(
        name,
        "Kafka 4.0.0",
        spreads,
        {**curves, ("exposure", MIN_ISR, "all"): line(113.6)},
        rows={
            "verdicts": [
                verdict(MIN_ISR, 300, what="partitions", waited=200),
                verdict(ACKS, 2, "the ISR is not in the log", what="partitions", waited=2),
            ],
            "errors": [{"variant": v, "code": 19, "n": 7} for v in (RECORDED, ACKS, MIN_ISR)],
            "swept": [
                {"at": at, "n": 8, "refused": refused.get(at or 2, 0), "least": 2, "most": 2}
                for at in (None, 1, 2, 3, 4)
            ],
        },
    )


# --- lowest_acked_offset -------------------------------------------------------------------------


def lowest(name: str = "one") -> lowest_acked_offset.Figures:
    def visible(
        variant: str, stale: Percentiles, known: Percentiles, *where: Any
    ) -> dict[Any, Percentiles]:
        figures = {"stale_window": stale, "read_after_write": known}
        return {(metric, variant, *where): of for metric, of in figures.items()}

    every = ("all", "all", None)
    slow, fast = (spread(1417.0), spread(3213.0, unknown=1)), (spread(969.0), spread(700.0))
    return lowest_acked_offset.Figures(
        name,
        "Kafka 4.0.0",
        visible(LOWEST, *slow, *every)
        | visible(ESTIMATED, spread(229.0), spread(281.0), *every)
        | visible(FINEST, *fast, *every)
        | visible(LOWEST, *slow, "api_name", "CREATE_TOPICS", None)
        | visible(
            LOWEST, spread(9.0, count=900), fast[1], "api_name", "INCREMENTAL_ALTER_CONFIGS", None
        )
        | visible(WITHOUT_KIP, spread(300.0), spread(400.0), "all", "all", 100)
        | visible(WITH_KIP, spread(60.0), spread(140.0), "all", "all", 100)
        | {
            ("read_after_write", LOWEST, "all", "all", at): spread(wait)
            for at, wait in ((100, 370.0), (500, 820.0), (1000, 1760.0), (4000, 6500.0))
        }
        | visible(WITHOUT_KIP, spread(900.0), spread(1500.0), "all", "all", 1000),
        {
            ("stale_window", LOWEST, "all"): line(1417.0),
            ("read_after_write", LOWEST, "all"): line(3213.0),
            ("stale_window", ESTIMATED, "all"): line(229.0),
        },
        rows={
            "verdicts": [
                verdict(LOWEST, 119, what="writes"),
                verdict(LOWEST, 1, "the log ended first", what="writes"),
            ],
            "cadence": [{"brokers": 3, "per_second": 1.7, "interval_ms": 2010}],
        },
    )


# --- reports -------------------------------------------------------------------------------------


def logs(name: str = "one", file: str = "a.log", **more: Any) -> Logs:
    example = {"node_id": 1, "source_file": file, "line_number": 7, "line": "line", "line_bytes": 4}
    counts = {"lines_read": 12, "requests": 7, "other": 3, "rejected": 1, "repeated": 1}
    files = {"files": 1, "bytes_read": 1000, "contents": "ab", "versions": ["4.0.0"]}
    node = {"node_id": 1, **counts, **files}
    return Logs(
        name,
        nodes=[{**node, "first_us": None, "last_us": None, **more}],
        rejected=[{"reason": "bad_json", "n": 1, "examples": [example]}],
    )


def recording(name: str = "one", own: Protocol = Protocol.WITHOUT) -> tuple[RuleFigures, ...]:
    return (hwm(name, own), fetch(name), acks(name), lowest(name))


def silent(name: str = "empty") -> tuple[RuleFigures, ...]:
    """A recording whose logs say nothing on any rule."""
    return tuple(kind(name) for kind in CLASSES)


def check(name: str = "one", passed: bool | None = True, error: float = 0.8) -> Check:
    of = {"rule": "hwm_parking", "predicted_from": name, "recorded_in": name}
    of |= {"variant": WITHOUT_KIP, "metric": "high_watermark_lag_p50", "unit": "ms"}
    group = {"group_kind": "replica_kind", "group_value": "broker"}
    figures = {"baseline": 250.0, "predicted": 329.0, "recorded": 328.2, "error": error}
    figures |= {"tolerance": None if passed is None else 2.0, "noise": 1.5}
    counts: dict[str, Any] = {"sample_count": 627, "unknown_count": 3, "is_enough": True}
    return Check(**of, **group, **figures, **counts, passed=passed, kind=Kind.SELF_CHECK)


def acks_check(before: str = "one", after: str = "two", passed: bool = True) -> Check:
    return replace(
        check(before, passed),
        rule="min_isr_acks",
        recorded_in=after,
        variant=MIN_ISR,
        metric="produce_latency_p50",
        group_kind="topic_partition",
        group_value="orders-3",
    )


def report_of(*recordings: tuple[RuleFigures, ...], checks: tuple[Check, ...] = ()) -> Report:
    by_rule = dict(zip((kind.NAME for kind in CLASSES), zip(*recordings, strict=True), strict=True))
    return Report([logs(one[0].recording) for one in recordings], by_rule, checks)


def report(name: str = "one") -> Report:
    return report_of(recording(name), checks=(check(name), acks_check(name, name)))
