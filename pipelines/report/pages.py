"""The pages of a report, one for each recording: values that a template or a format prints.

Everything comes from tables and views: what to do from ``headlines`` and ``decisions``, sentences
and specifications of pictures from each rule's ``page.toml``.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from kip_replay.pipelines.analysis.decide import STATED_CHECKS
from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.folders import rule_headlines, rule_pages
from kip_replay.pipelines.report import accuracy, fleet, logs, marks, words
from kip_replay.pipelines.report.fleet import Calculator
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.report.marks import Block, Chart, Row, Table
from kip_replay.pipelines.report.timeline import timelines
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.messages.served_versions import NEWEST
from kip_replay.replay.log_tables import LOG_GAPS
from kip_replay.replay.outcomes import Advice
from kip_replay.replay.tables import DECISIONS, HEADLINES, PREDICTION_ACCURACY, TABLES

#: Sentences on problems in the logs of a recording, at most.
MOST_ALERTS = 20
_FAILED = """
    SELECT recording, table_name, expectation, severity, failing_rows, says
    FROM quality_results WHERE NOT success AND severity IN ('critical', 'warning')
    ORDER BY recording, severity, table_name, expectation"""
_CLUSTERS = """
    SELECT DISTINCT recording, cluster_id FROM fetches
    WHERE is_cluster_metadata AND cluster_id IS NOT NULL ORDER BY ALL LIMIT 100"""
#: Clients, and those of them that a release no longer serves.
_CLIENTS = """
    SELECT recording, count(DISTINCT client) AS clients,
        count(DISTINCT client) FILTER (not_served_from IS NOT NULL AND served_again_from IS NULL)
            AS at_risk
    FROM (SELECT *, (client_id, principal, address) AS client FROM client_api_versions)
    GROUP BY recording"""
_FINDINGS = "SELECT * FROM findings WHERE rank <= 5 ORDER BY recording, rank"
#: Of FETCHes what is not waiting, for data or for records to replicate.
_RATES = """
    SELECT recording, format('{:,.1f} requests/s', sum(rate)) || coalesce(string_agg(
        format('; {} p50 {:.1f} ms, p99 {:.1f} ms', name, p50, p99), '' ORDER BY name DESC), '')
    FROM (
        SELECT recording, count(*) / nullif(span_s, 0) AS rate, CASE api_name
                WHEN 'FETCH' THEN 'FETCH, less waiting,' WHEN 'PRODUCE' THEN api_name END AS name,
            percentile_lower(total_ms - if(name = 'PRODUCE', 0, remote_ms), 0.5) AS p50,
            percentile_lower(total_ms - if(name = 'PRODUCE', 0, remote_ms), 0.99) AS p99
        FROM requests JOIN time_buckets USING (recording) GROUP BY recording, name, span_s)
    GROUP BY recording"""
_AT_RISK = {
    "mark": "table",
    "name": "Requests that are refused then",
    "note": "upgrade the client: Java's to Kafka 2.1 or later, another library to a release that "
    "sends what is needed",
    "query": """
        SELECT concat_ws(' ', coalesce(client_id, '(no client id)'), 'of ' || principal,
                'at ' || address) AS client,
            coalesce(software_name || ' ' || software_version, 'does not say') AS library,
            api_name || ' ' || lowest_version AS sends, requests,
            'Kafka ' || not_served_from AS "not served from",
            api_name || ' ' || lowest_served || ' or later' AS needs
        FROM client_api_versions
        WHERE recording = $recording AND not_served_from IS NOT NULL AND served_again_from IS NULL
        ORDER BY client, library, sends LIMIT 100""",
}
_CURVES = """
    SELECT DISTINCT CASE WHEN metric = $gain THEN variant ELSE metric END AS line, ms AS x,
        share AS y, NULL AS figure
    FROM curve_points
    WHERE recording = $recording AND rule = $rule AND metric = $metric
        AND group_kind = $group_kind AND group_value = $group_value AND variant = $variant"""
_PERCENTILES = {
    "mark": "table",
    "name": "Percentiles",
    "note": "ms; a 99th percentile of 100 values or more",
    "query": """
        SELECT metric, group_value AS "of", variant, p50_ms AS median, p90_ms AS "90 %",
            CASE WHEN count + unknown_count >= 100 THEN p99_ms END AS "99 %", max_ms AS longest,
            count AS values, unknown_count AS unknown
        FROM latency_summary
        WHERE recording = $recording AND rule = $rule AND parameter = 'none'
            AND group_kind IN ('all', 'replica_kind') AND list_contains($metrics, metric)
        ORDER BY metric, group_value, variant""",
}
_UNKNOWN = {
    "mark": "table",
    "name": "What the logs could not decide",
    "note": "outcomes, sweeps included; each counts as the slowest, or as a miss",
    "query": """
        SELECT table_name AS "of", reason, variant, outcomes FROM unknowns_by_reason
        WHERE recording = $recording AND rule = $rule
        ORDER BY outcomes DESC, table_name, reason, variant LIMIT 20""",
}


@dataclass(frozen=True)
class Effect:
    """Holds what a change does to a figure: a row of ``headlines`` with its name."""

    label: str
    says: str
    row: Row

    @property
    def is_known(self) -> bool:
        """Enough values are behind it to be shown."""
        return self.row["low"] is not None and self.row["after"] is not None

    @property
    def difference(self) -> float:
        return float(self.row["after"] - self.row["before"])

    @property
    def is_new(self) -> bool:
        """There was nothing of it before, or is nothing of it after."""
        return "none" in (self.row["before_variant"], self.row["after_variant"])

    @property
    def change(self) -> str:
        """'327 ms less', '4.5 kB/s more', or how long it is; of one that is known."""
        text = self.wording(abs(self.difference))
        if self.is_new:
            return text
        return f"{text} {'less' if self.difference <= 0 else 'more'}"

    @property
    def within(self) -> str:
        """The ends of the interval, the smaller change first, and how many of all are unknown."""
        ends = (self.row["low"], self.row["high"])
        low, high = ends if self.difference > 0 else (-ends[1], -ends[0])
        low, high = self.wording(low), self.wording(high)
        figure, _, unit = low.partition(words.SPACE)
        text = f"{figure if high.endswith(f'{words.SPACE}{unit}') else low} to {high}"
        count, unknown = self.row["count"], self.row["unknown_count"]
        return f"{text}; {unknown:,} of {count + unknown:,} unknown" if unknown else text

    def wording(self, value: float) -> str:
        unit = self.row["unit"]
        if unit == "ms":
            return words.milliseconds(value)
        if unit == "B/s":
            return f"{words.size(value)}/s"
        return f"{words.number(value, 1)}{words.SPACE}{unit}"


@dataclass(frozen=True)
class Card:
    """A rule in a recording: what to do, why, and what it rests on."""

    rule: str
    stated: Mapping[str, Any]
    decision: Row
    sentence: str
    effects: Sequence[Effect]
    checks: str
    picture: Block | None = None
    #: Pictures and tables that are folded away.
    blocks: Sequence[Block] = ()
    accuracy: Sequence[Table] = ()

    @property
    def style(self) -> str:
        return Advice(self.decision["advice"]).name.lower().replace("_", "-")

    @property
    def gain(self) -> Effect | None:
        return next((each for each in self.effects if each.label == "Gain"), None)


@dataclass(frozen=True)
class Page:
    """A recording: what was recorded, what to do, and what that rests on."""

    recording: str
    id: str
    facts: Sequence[str]
    alerts: Sequence[tuple[str, bool]]
    cards: Sequence[Card]
    accuracy: str
    baseline: str | None
    logs: Logs
    fleet: Sequence[Block] = ()
    calculators: Sequence[Calculator] = ()
    #: What is not of the whole recording, as it grows.
    recent: Sequence[str] = ()
    #: Whether releases serve the versions that clients use, and which they do not.
    upgrade: str = ""
    at_risk: Block | None = None
    #: How the cluster does: in short, what stands out (rows of ``findings`` in words), and shown.
    rates: str = ""
    findings: Sequence[Row] = ()
    overview: Sequence[Block] = ()

    @property
    def released(self) -> list[Card]:
        return [card for card in self.cards if "released" in card.stated]

    @property
    def drafts(self) -> list[Card]:
        return [card for card in self.cards if "released" not in card.stated]


@dataclass(frozen=True)
class Report:
    """Holds what tables have of recordings, before any picture is drawn."""

    logs: Sequence[Logs]
    decisions: Mapping[str, Sequence[Row]]
    headlines: Mapping[tuple[str, str], Sequence[Row]]
    checks: Mapping[str, Sequence[Row]]
    failures: Mapping[str, Sequence[Row]]
    clusters: Mapping[str, Sequence[Row]]
    recent: Mapping[str, datetime]
    clients: Mapping[str, Sequence[Row]]
    findings: Mapping[str, Sequence[Row]]
    rates: Mapping[str, str | None]


@cache
def _shared(name: str = "reasons.toml") -> Any:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def read_pages(
    warehouse: Warehouse,
    recordings: Sequence[str],
    kafka_versions: Mapping[str, str] | None = None,
    is_drawn: bool = True,
    decided: tuple[pa.Table, pa.Table] | None = None,
    limits: Mapping[str, float] | None = None,
) -> list[Page]:
    """The pages of recordings, in the order given; without pictures where ``is_drawn`` is false.

    Details are of what the warehouse shows as recent. ``kafka_versions``: what manifests say, by
    recording. ``decided``: rows in place of those of ``headlines`` and ``decisions``. ``limits``:
    of findings. Raises UserError for a recording that is not there, or without decisions.
    """
    names = list(dict.fromkeys(recordings))
    with warehouse.database(names) as database:
        read = logs.read(database, warehouse.rows(LOG_GAPS, names), names, kafka_versions or {})
        tables = decided or [warehouse.rows(table, names) for table in (HEADLINES, DECISIONS)]
        decisions = marks.grouped(tables[1].to_pylist())
        for name in names:
            if name not in {one.recording for one in read} or name not in decisions:
                raise UserError(
                    f"recording {name!r} is not in the warehouse {warehouse.path}, or its run did "
                    "not end: run `kip-replay run` with it and this --warehouse first"
                )
        headlines: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in sorted(tables[0].to_pylist(), key=lambda each: each["place"]):
            headlines[row["recording"], row["rule"]].append(row)
        failures, clusters = (marks.grouped(marks.rows(database, q)) for q in (_FAILED, _CLUSTERS))
        checks = warehouse.rows(PREDICTION_ACCURACY, names).to_pylist()
        of = [row for row in checks if row["recorded_in"] in names]
        checked, recent = marks.grouped(of, "recorded_in"), warehouse.recent
        create_views(database, in_order(read_views(limits), TABLES))
        clients, findings = (marks.grouped(marks.rows(database, q)) for q in (_CLIENTS, _FINDINGS))
        more = (clients, findings, dict(database.execute(_RATES).fetchall()))
        report = Report(read, decisions, headlines, checked, failures, clusters, recent, *more)
        return [
            _page(report, one, f"recording-{number}", database if is_drawn else None)
            for number, one in enumerate(read, start=1)
        ]


def _page(report: Report, of: Logs, id: str, database: DuckDBPyConnection | None) -> Page:
    checks = report.checks.get(of.recording, ())
    made = [_card(report, of.recording, row) for row in report.decisions[of.recording]]
    order = [*rule_pages()]
    cards = sorted(made, key=lambda card: ("released" not in card.stated, order.index(card.rule)))
    clusters = [row["cluster_id"] for row in report.clusters.get(of.recording, ())][:3]
    recent = [
        f"still growing: what was counted, checks and details are of {at:%F %T} UTC and later, "
        "gains, prices, percentiles and curves of all"
        for name, at in report.recent.items()
        if name == of.recording
    ]
    if database is not None:
        cards = [_drawn(database, of.recording, card, report) for card in cards]
    return Page(
        of.recording,
        id,
        [
            *of.facts,
            *(f"cluster {words.shortened(words.visible(name), 60)}" for name in clusters),
            *recent,
        ],
        [*_alerts(report, of, cards)],
        cards,
        accuracy.sentence(checks),
        accuracy.baseline_sentence(checks),
        of,
        fleet.blocks(database, of.recording) if database else (),
        fleet.calculators(database, of.recording) if database else (),
        recent,
        _clients_sentence(report, of.recording),
        marks.shown(database, _AT_RISK, recording=of.recording) if database else None,
        report.rates.get(of.recording) or "",
        [*map(_finding, report.findings.get(of.recording, ()))],
        [*_overview(database, of.recording)] if database else (),
    )


def _finding(row: Row) -> Row:
    """A row of ``findings`` with the sentence that it ``says``."""
    api_name, _, error = (row["detail"] or "").partition(": ")
    values = {**row, "api_name": api_name, "error": error, "size": words.size(row["amount"])}
    values |= {"percent": f"{100 * row['figure']:.0f} %", "wait": words.milliseconds(row["amount"])}
    values["subject"] = words.shortened(row["subject"], 120)
    return {**row, "says": _shared("overview.toml")["findings"][row["code"]].format(**values)}


def _overview(database: DuckDBPyConnection, recording: str) -> Iterator[Block]:
    stated = _shared("overview.toml")
    yield from timelines(database, stated["timelines"], recording, ["recorded"])
    shown = (marks.shown(database, spec, recording=recording) for spec in stated["show"])
    yield from filter(None, shown)


def _clients_sentence(report: Report, recording: str) -> str:
    if recording not in report.clients:
        return str(_shared()["no_client"])
    [of] = report.clients[recording]
    text: str = _shared()["clients_at_risk" if of["at_risk"] else "clients_served"]
    return text.format(newest=NEWEST, **of)


def _card(report: Report, recording: str, decision: Row) -> Card:
    rule = decision["rule"]
    stated = rule_pages()[rule]
    names = {each["name"]: each for each in rule_headlines(rule)}
    headlines = report.headlines.get((recording, rule), ())
    facts = {name: _number(value) for name, value in dict(decision["facts"] or ()).items()}
    gain = next((row for row in headlines if row["role"] == "gain"), None)
    who = words.kind_name(gain["group_value"]) if gain else "replicas"
    figure = names.get(str(facts.get("lacks", gain and gain["figure"])), {})
    facts |= {"who": who, "change": figure.get("change", ""), "values": figure.get("values", "")}
    if "without_most" in facts:
        facts["without_most"] = words.shortened(words.visible(str(facts["without_most"])), 40)
    facts |= next(iter(report.clients.get(recording, ())), {})
    effects = [
        Effect(row["role"].capitalize(), names[row["figure"]]["says"].format(who=who), row)
        for row in headlines
    ]
    effect = next((each for each in effects if each.label == "Gain"), None)
    if gain and effect and effect.is_known:
        facts |= {name: effect.wording(gain[name]) for name in ("before", "after")}
        facts["less"] = effect.wording(abs(effect.difference))
    checks = [row for row in report.checks.get(recording, ()) if row["rule"] == rule]
    return Card(
        rule,
        stated,
        decision,
        _sentence(decision, stated, facts),
        effects,
        accuracy.sentence(checks),
        accuracy=accuracy.tables(checks),
    )


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _sentence(decision: Row, stated: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    reason = decision["reason"]
    texts = [stated["reasons"].get(reason) or _shared()[reason]]
    if decision["advice"] == Advice.IN_USE and "less" in facts:
        texts.append(stated["reasons"]["without_it"])
    if facts.get("without") and "without_session" in stated["reasons"]:
        texts.append(stated["reasons"]["without_session"])
    if "unknown_reason" in facts:
        texts.append(_shared()["unknown_reason"])
    if "unknown_most" in facts:
        texts.append(_shared()["unknown_most"])
    if decision["advice"] == Advice.DO and "then" in stated:
        texts.append(stated["then"])
        if facts.get("at_risk") and "at_risk" in stated:
            texts.append(stated["at_risk"])
    return " ".join(texts).format_map({"slots": "an unknown number of", **facts})


def _alerts(report: Report, of: Logs, cards: Sequence[Card]) -> Iterator[tuple[str, bool]]:
    """Problems of a recording, and the verdicts that are withheld for them."""
    every = [*((text, True) for text in of.warnings), *((text, False) for text in of.notes)]
    every += [*_missed(report, of.recording, cards)]
    for row in report.failures.get(of.recording, ()):
        if row["severity"] == "critical" and row["expectation"] not in STATED_CHECKS:
            text = (
                f"{words.count(row['failing_rows'], 'row')} of {row['table_name']} failed the "
                f"check {row['expectation']}; expected: {row['says']}"
            )
            every.append((text, True))
    yield from every[:MOST_ALERTS]
    if len(every) > MOST_ALERTS:
        yield f"{len(every) - MOST_ALERTS} more; quality_results and log_gaps have all", True
    withheld = [c.stated["kip"] for c in cards if c.decision["advice"] == Advice.WITHHELD]
    if withheld:
        yield (
            f"advice is withheld on {words.joined(withheld)}; what brings it back is stated there",
            True,
        )


def _missed(report: Report, recording: str, cards: Sequence[Card]) -> Iterator[tuple[str, bool]]:
    """Self-checks and hard bounds that advice rests on, and that do not hold."""
    for card in cards:
        headlines = report.headlines.get((recording, card.rule), ())
        names = {row["self_check"] for row in headlines if (row["self_check_error"] or 0) > 0}
        missed = {
            row["metric"]
            for row in report.checks.get(recording, ())
            if row["rule"] == card.rule and row["passed"] is False
            if row["kind"] == "bound" or row["metric"] in names
        }
        if missed and card.decision["advice"] in (Advice.DO, Advice.DONT, Advice.NO_RELEASE):
            what = ", ".join(card.stated["metrics"].get(name, name) for name in sorted(missed))
            kip = card.stated["kip"]
            yield f"{kip}: figures that its advice rests on failed their checks: {what}", True


def _drawn(database: DuckDBPyConnection, recording: str, card: Card, report: Report) -> Card:
    """The card with its pictures."""
    found = report.headlines.get((recording, card.rule), ())
    gain = next((row for row in found if row["role"] == "gain"), None)
    values = {
        "recording": recording,
        "rule": card.rule,
        "before": gain["before_variant"] if gain else "",
        "after": gain["after_variant"] if gain else "",
        "metrics": [*card.stated["metrics"]],
    }
    variants = {row[side] for row in found for side in ("before_variant", "after_variant")}
    variants = variants or {*card.stated["variants"], "recorded"}
    specs = card.stated.get("show", ())
    first = [spec for spec in specs if spec.get("is_first")]
    picture = (
        marks.shown(database, first[0], **values)
        if first
        else _distribution(database, recording, card, found)
    )
    blocks: list[Block | None] = [
        *timelines(database, card.stated.get("timelines", ()), recording, variants),
        *(marks.shown(database, spec, **values) for spec in specs if spec not in first),
        marks.shown(database, _PERCENTILES, **values),
        marks.shown(database, _UNKNOWN, **values),
    ]
    kept = [block for block in blocks if block is not None]
    return replace(card, picture=picture, blocks=_listed_once(kept))


def _listed_once(blocks: Sequence[Block]) -> list[Block]:
    """Lists what charts over time mark in the first of them only."""
    seen = False
    found = []
    for block in blocks:
        if isinstance(block, Chart) and block.x_scale == "time":
            block, seen = replace(block, lists_marks=not seen), True
        found.append(block)
    return found


def _distribution(
    database: DuckDBPyConnection, recording: str, card: Card, found: Sequence[Row]
) -> Block | None:
    """The distributions behind the headlines that are latencies, where there is enough data."""
    points: list[Row] = []
    metrics = {each["name"]: each["metric"] for each in rule_headlines(card.rule)}
    latencies = [row for row in found if row["unit"] == "ms" and row["low"] is not None]
    of = [(metrics[row["figure"]].removesuffix("_sent_latest"), row) for row in latencies]
    for metric, row in of:
        for side in ("before_variant", "after_variant"):
            named = {name: row[name] for name in ("rule", "group_kind", "group_value")}
            values = {"recording": recording, "metric": metric, "variant": row[side], **named}
            points += marks.rows(database, _CURVES, gain=of[0][0], **values)
    note = ", ".join(dict.fromkeys(words.metric_name(metric) for metric, _ in of))
    return marks.distribution("How long it takes", note, points)
