"""Outcomes to decisions: what to do about each rule in a recording, as rows of two tables.

``headlines`` has a gain and its prices, before and after, with the interval of the difference.
``decisions`` weighs them by where intervals lie beside their limits and by what was counted, and
withholds advice where logs, checks or self-checks say that figures can't be trusted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from kip_replay.pipelines.analysis.accuracy import SHORT_S
from kip_replay.pipelines.analysis.summarize import (
    ACCURACY,
    SUMMARIES,
    SUMMARY_TABLES,
    SummedRule,
)
from kip_replay.pipelines.engines import Engine, Inputs
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.log_gaps import SELECTIONS
from kip_replay.pipelines.replaying.states import phases_table, steady_phases
from kip_replay.pipelines.rule_files import of_rules, require_facts, rule_headlines, rule_pages
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    Step,
    fingerprint,
    inputs_of,
    is_growing,
    recent_of,
)
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_gaps import LOG_GAP
from kip_replay.replay.log_tables import LOG_TABLES, LogGaps
from kip_replay.replay.records import SAMPLES_MIN, Advice
from kip_replay.replay.rule import CLOCKS_DIFFER
from kip_replay.replay.table import BOOL, INT, TEXT
from kip_replay.replay.tables import (
    ClockBounds,
    Decisions,
    Headlines,
    Incidents,
    PredictionAccuracy,
    QualityResult,
)

#: The configuration: sections of settings, by name.
Config: TypeAlias = Mapping[str, Mapping[str, Any]]
Row: TypeAlias = Mapping[str, Any]

_FOLDER = Path(__file__).parent
#: Steps whose rows decisions rest on, and the page that is written after them.
_READ = ("clocks", "log_gaps", "health", "quality", SUMMARIES, ACCURACY)
STEP = Step(
    name="decisions",
    reads=(
        ClockBounds,
        LogGaps,
        Incidents,
        QualityResult,
        *SUMMARY_TABLES,
        PredictionAccuracy,
    ),
    writes=(Headlines, Decisions),
    modules=(__name__,),
    files=(*_FOLDER.glob("*.sql"), *of_rules("outcomes.sql"), *of_rules("page.toml")),
)
_STATED = pa.schema(
    {
        **dict.fromkeys(("rule", "name", "role", "metric", "figure", "group_kind"), TEXT),
        **dict.fromkeys(("before", "after", "limit_name", "self_check"), TEXT),
        **dict.fromkeys(("place", "choice"), INT),
        "group_value": TEXT,
        "is_largest": BOOL,
    }
)
#: Reasons of what is unknown that complete logs would not leave.
_DAMAGED = (LOG_GAP, CLOCKS_DIFFER)
#: Checks whose failure the report states in words of its own, and that withhold nothing.
STATED_CHECKS = frozenset(
    {
        "log_has_no_gap",
        "every_node_has_its_log",
        "clocks_agree",
        "no_line_is_rejected",
        "no_file_is_damaged",
    }
)


@dataclass(frozen=True)
class Weighed:
    """Holds the advice in one recording, the code of its reason, and what its sentence names."""

    advice: Advice
    reason: str
    facts: Mapping[str, object] = field(default_factory=dict)


def decide(
    engine: Engine,
    recordings: Sequence[str],
    rules: Sequence[SummedRule],
    config: Config,
    say: Callable[[str], object] = print,
) -> None:
    """Writes headlines and decisions of recordings where what they follow from has changed."""
    covers = wanted(engine.warehouse, recordings, rules, config)
    due = STEP.due(engine.warehouse, covers)
    if not due:
        return
    say(f"decide: {', '.join(due)}")
    headlines, decisions = decided(engine, [*due], rules, config)
    covered = {name: str(covers[name]) for name in due}
    engine.warehouse.replace(STEP.name, covered, {Headlines: headlines, Decisions: decisions})


def decided_anew(
    engine: Engine, recordings: Sequence[str], rules: Sequence[SummedRule], config: Config
) -> tuple[pa.Table, pa.Table] | None:
    """Rows of both tables where they follow from something else; None where what is there does."""
    there = STEP.covered(engine.warehouse, recordings)
    covers = wanted(engine.warehouse, [*there], rules, config)
    is_current = not STEP.due(engine.warehouse, covers)
    return None if is_current else decided(engine, recordings, rules, config)


def wanted(
    warehouse: Warehouse,
    recordings: Sequence[str],
    rules: Sequence[SummedRule],
    config: Config,
) -> dict[str, Covered]:
    """States by recording what its decisions follow from."""
    limits = {name: config.get(name) for name in ("report", "findings", *(r.name for r in rules))}
    identity, lineage = fingerprint(STEP.code(), limits), warehouse.lineage(recordings)
    since = recent_of(warehouse, recordings, config["replay"]["recent_minutes"]).recent
    growing = {
        name: [is_growing(lineage.get((name, r.name))) for r in rules] for name in recordings
    }
    return {
        name: Covered(
            identity=identity,
            inputs=fingerprint(inputs_of(lineage, name, _READ), growing[name], since.get(name)),
        )
        for name in recordings
    }


def decided(
    engine: Engine, recordings: Sequence[str], rules: Sequence[SummedRule], config: Config
) -> tuple[pa.Table, pa.Table]:
    """Rows of ``headlines`` and of ``decisions``."""
    # Facts are of the recent part of recordings that grow.
    minutes = config["replay"]["recent_minutes"]
    recent = engine.on(recent_of(engine.warehouse, recordings, minutes))
    phases = {"phases": phases_table(steady_phases(engine, recordings))}
    facts = {
        rule.name: _facts(engine, recent, rule, recordings, phases, config[rule.name])
        for rule in rules
    }
    inputs = {"stated": pa.Table.from_pylist([*_stated(rules)], _STATED)}
    most = config["report"]["unknown_share_max"]
    text = Text.read(_FOLDER / "headlines.sql", unknown_share_max=most)
    figures = engine.rows(text, recordings, inputs)
    limited = [
        {**row, "limit": {**facts[rule].get(row["recording"], {}), **config[rule]}.get(name)}
        for row in figures.to_pylist()
        for rule, name in [(row["rule"], row["limit_name"])]
    ]
    for row in limited:
        if _unknown_share(row) > most:
            row.update(dict.fromkeys(("before", "after", "low", "high")))
    headlines: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(limited, key=lambda row: row["place"]):
        headlines[row["recording"], row["rule"]].append(row)
    reasons = _Checks.read(recent, recordings, rules, config["report"])
    decisions = [
        _decision(name, rule, headlines[name, rule.name], facts[rule.name].get(name), reasons)
        for name in recordings
        for rule in rules
    ]
    rows = {Headlines: limited, Decisions: decisions}
    tables = [pa.Table.from_pylist(its, table.arrow_schema) for table, its in rows.items()]
    return tables[0], tables[1]


def _facts(
    engine: Engine,
    recent: Engine,
    rule: SummedRule,
    recordings: Sequence[str],
    phases: Inputs,
    limits: Mapping[str, Any],
) -> dict[str, Row]:
    """Counts in the recent part of each recording, by its name."""
    text = rule.text("facts", **limits)
    table = recent.rows(text, recordings, phases)
    require_facts(rule.name, table.column_names)
    rows = table.to_pylist()
    since = recent.warehouse.recent
    for row in rows:
        if moment := since.get(row["recording"]):
            row["counted_since"] = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    quiet = since.keys() - {row["recording"] for row in rows}
    if quiet:  # what was counted before holds where nothing was logged of late
        rows += engine.rows(text, quiet, phases).to_pylist()
    return {row["recording"]: row for row in rows}


def _stated(rules: Sequence[SummedRule]) -> Iterator[Row]:
    defaults = {"before": "none", "after": "none"}
    for rule in rules:
        yield from ({**defaults, **row, "rule": rule.name} for row in rule_headlines(rule.name))


def _decision(
    name: str,
    rule: SummedRule,
    headlines: Sequence[Row],
    facts: Row | None,
    checks: "_Checks",
) -> Row:
    gain = next((row for row in headlines if row["role"] == "gain"), None)
    price = [row for row in headlines if row["role"] == "price"]
    weighed = _weighed(rule, gain, price, facts)
    if name in checks.selections:
        weighed = Weighed(Advice.WITHHELD, "selection")
    elif weighed.reason not in ("no_requests", "to_mend"):  # counts need no complete log
        weighed = checks.withheld(name, rule, headlines, weighed) or weighed
    if weighed.advice is Advice.NOT_ENOUGH and (name, rule.name) in checks.growing:
        weighed = Weighed(weighed.advice, "still_growing")
    values = {**(facts or {}), **weighed.facts}
    return {
        "recording": name,
        "rule": rule.name,
        "advice": weighed.advice.value,
        "reason": weighed.reason,
        "facts": [
            (key, str(value).lower() if isinstance(value, bool) else str(value))
            for key, value in values.items()
            if key != "recording" and value is not None
        ],
        "gain": gain,
        "price": price,
        "paste": rule_pages()[rule.name].get("paste", "").format_map(values).strip()
        if weighed.advice is Advice.DO
        else None,
        "rests_on": [*_rests_on(headlines)],
    }


def _weighed(
    rule: SummedRule, gain: Row | None, price: Sequence[Row], facts: Row | None
) -> Weighed:
    """Advice by what was counted, else by the figures."""
    if not facts or not facts["requests"]:
        return Weighed(Advice.NOT_ENOUGH, "no_requests")
    if facts.get("to_mend"):
        return Weighed(Advice.DO, "to_mend")
    if facts["in_use"] and not facts["is_mixed"]:
        return Weighed(Advice.IN_USE, "in_use")
    if gain is None or gain["before"] is None or gain["after"] is None:
        return _too_little_data(rule, gain)
    limited = [row for row in price if row["limit"] is not None]
    is_gain = _side(gain["high"], gain["low"], -gain["limit"])
    is_affordable = [_side(row["high"], row["low"], row["limit"]) for row in limited]
    if is_gain is False:
        return Weighed(Advice.DONT, "too_little")
    if False in is_affordable:
        return Weighed(Advice.DONT, "too_dear")
    if is_gain and None not in is_affordable:
        is_released = "released" in rule_pages()[rule.name]
        return Weighed(Advice.DO if is_released else Advice.NO_RELEASE, "worth_it")
    if lacking := [row for row in (gain, *limited) if row["low"] is None]:
        return _too_little_data(rule, lacking[0])
    sides = zip((gain, *limited), (is_gain, *is_affordable), strict=True)
    limits = "; ".join(_uncertain(row) for row, is_within in sides if is_within is None)
    return Weighed(Advice.NOT_ENOUGH, "on_the_limit", {"limits": limits})


def _too_little_data(rule: SummedRule, row: Row | None) -> Weighed:
    """Names what an interval lacks, and what it takes."""
    row = row or {"figure": rule_headlines(rule.name)[0]["name"], "count": 0}
    facts = {"lacks": row["figure"], "count": row["count"], "count_needed": SAMPLES_MIN}
    reason = "too_little_data" if facts["count"] < SAMPLES_MIN else "too_short"
    return Weighed(Advice.NOT_ENOUGH, reason, {**facts, "seconds_needed": SHORT_S})


def _unknown_share(row: Row) -> float:
    """The share of what a figure is of that is unknown."""
    unknown = row["unknown_count"] or 0
    return unknown / (unknown + (row["count"] or 0)) if unknown else 0.0


def _side(high: float | None, low: float | None, most: float) -> bool | None:
    """Compares a change with a limit; None where its interval includes it, or is unknown."""
    if high is None or low is None:
        return None
    return True if high <= most else False if low > most else None


def _uncertain(row: Row) -> str:
    """Says between which ends a gain or a price lies, and its limit."""
    ends = (-row["high"], -row["low"]) if row["role"] == "gain" else (row["low"], row["high"])
    least, most = (f"{round(end, 0 if abs(end) >= 10 else 1):,.12g}" for end in ends)
    return f"{least} to {most} {row['unit']}, limit {row['limit']:,.12g}"


def _limit(row: Row) -> str:
    return f"{row['rule']}.{row['limit_name']} = {row['limit']:,.12g}"


def _rests_on(headlines: Sequence[Row]) -> Iterator[str]:
    for row in headlines:
        if row["limit"] is not None:
            yield _limit(row)
    checks = {row["self_check"]: row for row in headlines if row["self_checks"]}
    for name, row in checks.items():
        text = f"self-check {name}: {row['self_checks_passed']} of {row['self_checks']} pass"
        error = row["self_check_error"]
        yield text if error is None else f"{text}, others are off by up to {100 * error:.0f} %"


@dataclass(frozen=True)
class _Checks:
    """Why figures of recordings may not be trusted."""

    #: Of each recording and rule, how many outcomes of each variant have each reason.
    reasons: Mapping[tuple[str, str], Mapping[tuple[str, str | None], int]]
    lacking: Mapping[tuple[str, str], Sequence[int]]
    #: By recording the tables of which a critical check failed.
    failed: Mapping[str, Collection[str]]
    growing: Collection[tuple[str, str]]
    #: Recordings whose logs are a selection of requests.
    selections: Collection[str]
    limits: Mapping[str, Any]

    @classmethod
    def read(
        cls,
        engine: Engine,
        recordings: Sequence[str],
        rules: Sequence[SummedRule],
        limits: Mapping[str, Any],
    ) -> "_Checks":
        warehouse = engine.warehouse
        reasons: dict[tuple[str, str], Counter[tuple[str, str | None]]] = defaultdict(Counter)
        lacking: dict[tuple[str, str], list[int]] = defaultdict(list)
        failed: dict[str, set[str]] = defaultdict(set)
        for row in engine.rows(Text(_reasons(rules)), recordings).to_pylist():
            key = row["recording"], row["rule"]
            reasons[key][row["variant"], row["reason"]] += row["outcomes"]
        text = Text.read(_FOLDER / "lacking_nodes.sql")
        for row in engine.rows(text, recordings).to_pylist():
            lacking[row["recording"], row["rule"]].append(row["node_id"])
        for row in warehouse.rows(QualityResult, recordings).to_pylist():
            is_stated = row["success"] or row["expectation"] in STATED_CHECKS
            if row["severity"] == "critical" and not is_stated:
                failed[row["recording"]].add(row["table_name"])
        lineage = warehouse.lineage(recordings)
        growing = {key for key, text in lineage.items() if is_growing(text)}
        gaps = warehouse.rows(LogGaps, recordings).to_pylist()
        selections = {row["recording"] for row in gaps if row["evidence"] in SELECTIONS}
        return cls(reasons, lacking, failed, growing, selections, limits)

    def withheld(
        self, name: str, rule: SummedRule, headlines: Sequence[Row], weighed: Weighed
    ) -> Weighed | None:
        """Why advice is not given; None where it may be."""
        share = max(map(_unknown_share, headlines), default=0.0)
        why = self._most_often(name, rule.name)
        is_damage = why.get("unknown_reason") in _DAMAGED
        if share > self.limits["unknown_share_max"] and not is_damage:
            why["unknown_percent"] = f"{100 * share:.1f}"
            why["unknown_most"] = f"{100 * self.limits['unknown_share_max']:.0f}"
            return Weighed(Advice.WITHHELD, "unknown", why)
        share = self._share_damaged(name, rule.name)
        if share > self.limits["damaged_share_max"]:
            return Weighed(Advice.WITHHELD, "damaged", {"damaged_percent": f"{100 * share:.1f}"})
        if lacking := self.lacking.get((name, rule.name)):
            nodes = ", ".join(map(str, sorted(lacking)))
            return Weighed(Advice.WITHHELD, "node_missing", {"nodes": nodes})
        of_rule = {table.name for table in (*rule.outcomes, *LOG_TABLES)}
        if wrong := of_rule & {*self.failed.get(name, ())}:
            return Weighed(Advice.WITHHELD, "checks_failed", {"tables": ", ".join(sorted(wrong))})
        is_used = weighed.reason not in ("in_use", "too_little_data", "too_short")
        errors = (row["self_check_error"] for row in headlines if row["role"] == "gain" and is_used)
        if (error := max(filter(None, errors), default=0.0)) > self.limits["self_check_error_max"]:
            most = self.limits["self_check_error_max"]
            percent = {"error_percent": f"{100 * error:.0f}", "most_percent": f"{100 * most:.0f}"}
            return Weighed(Advice.WITHHELD, "self_check", percent)
        return None

    def _share_damaged(self, name: str, rule: str) -> float:
        """The share of outcomes that rest on what logs lack, of the variant with most."""
        every: Counter[str] = Counter()
        damaged: Counter[str] = Counter()
        for (variant, reason), outcomes in self.reasons.get((name, rule), {}).items():
            every[variant] += outcomes
            damaged[variant] += outcomes if reason in _DAMAGED else 0
        return max((damaged[variant] / n for variant, n in every.items() if n), default=0.0)

    def _most_often(self, name: str, rule: str) -> dict[str, object]:
        """The reason that most unknown outcomes have."""
        counts: Counter[str] = Counter()
        for (_, reason), outcomes in self.reasons.get((name, rule), {}).items():
            if reason is not None:
                counts[reason] += outcomes
        if not counts:
            return {}
        return {"unknown_reason": min(counts, key=lambda reason: (-counts[reason], reason))}


def _reasons(rules: Sequence[SummedRule]) -> str:
    """Counts the outcomes of each variant, and of those that are unknown each reason: of
    the tables that a rule's figures are of."""
    return " UNION ALL ".join(
        "SELECT recording, rule, variant, CASE WHEN verdict = 'unknown' THEN reason END AS reason, "
        f"count(*) AS outcomes FROM {table} WHERE parameter = 'none' GROUP BY ALL"
        for rule in rules
        for table in rule_pages()[rule.name]["outcomes"]
    )
