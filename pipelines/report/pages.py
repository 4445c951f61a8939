"""Reads the pages of a report, one for each recording: values that every format prints.

Everything comes from tables and views by the texts of ``overview.toml``; sentences and what is
shown of a rule from its ``page.toml``.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from kip_replay.pipelines.analysis.decide import STATED_CHECKS
from kip_replay.pipelines.analysis.views import create_views, in_order, named_in, read_views
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.replaying.clocks import clock_sentences
from kip_replay.pipelines.replaying.log_gaps import SELECTIONS, gap_sentences
from kip_replay.pipelines.report import marks, words
from kip_replay.pipelines.report.marks import Block, Row
from kip_replay.pipelines.rule_files import Kind, rule_headlines, rule_pages
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.messages.schemas import NEWEST
from kip_replay.replay.records import Advice
from kip_replay.replay.rules import RULES
from kip_replay.replay.tables import TABLES, PredictionAccuracy

#: Kinds of predictions: a title, and one and many of them.
KINDS = {
    Kind.OTHER_CLUSTER: (
        "Predictions from other clusters",
        ("prediction of another cluster", "predictions of other clusters"),
    ),
    Kind.SELF_CHECK: ("Self-checks", ("self-check", "self-checks")),
    Kind.BOUND: ("Hard bounds", ("hard bound", "hard bounds")),
    Kind.DRAFT: (
        "Against nodes that run the draft",
        ("figure of nodes that run the draft", "figures of nodes that run the draft"),
    ),
}
#: Sentences on problems in the logs of a recording, at most.
MOST_ALERTS = 20
#: A view that has rows for each partition of each request: too many to hold.
_UNBOUNDED = {"produced_partitions"}


@cache
def stated() -> Mapping[str, Any]:
    """Reads what the page shows of every recording, and says of every rule."""
    return tomllib.loads(Path(__file__).with_name("overview.toml").read_text(encoding="utf-8"))


def read_pages(
    warehouse: Warehouse,
    recordings: Sequence[str],
    is_drawn: bool = True,
    decided: tuple[pa.Table, pa.Table] | None = None,
    limits: Mapping[str, float] | None = None,
    beside: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The pages of recordings, in the order given: what report.schema.json describes, and where
    ``is_drawn`` its ``pictures``, ``bands`` and ``sections``.

    Details are of what the warehouse shows as recent. ``decided``: rows in place of those of
    ``headlines`` and ``decisions``. ``limits``: of findings. ``beside``: other recordings, whose
    predictions of these are shown. Raises UserError for a recording that is not there, or without
    decisions.
    """
    names = list(dict.fromkeys(recordings))
    run = str((stated(), rule_pages()) if is_drawn else stated()["rows"])
    views = named_in(run, in_order(read_views(limits), TABLES))
    named = {*re.findall(r"\w+", run)}.union(*(view.sources for view in views))
    tables = [table for name, table in TABLES.items() if name in named]
    tables.remove(PredictionAccuracy)
    with warehouse.database(names, tables) as database:
        warehouse.register(database, {*names, *beside}, [PredictionAccuracy])
        # The page reads them for each recording, rule or chart, so they are computed once.
        create_views(database, views, {view.name for view in views} - _UNBOUNDED)
        read = {name: marks.rows(database, query) for name, query in stated()["rows"].items()}
        if decided:
            read |= {"headlines": decided[0].to_pylist(), "decisions": decided[1].to_pylist()}
        read["headlines"].sort(key=itemgetter("place"))
        by_recording = {name: marks.grouped(rows) for name, rows in read.items()}
        pages = []
        for name in names:
            records = {what: rows.get(name, []) for what, rows in by_recording.items()}
            if not (records["nodes"] and records["decisions"]):
                raise UserError(
                    f"recording {name!r} is not in the warehouse {warehouse.path}, or its run did "
                    "not end: run `kip-replay run` with it and this --warehouse first"
                )
            since = warehouse.recent.get(name)
            page = _page(name, records, since)
            if is_drawn:
                page |= _drawn(database, name, page, records)
            pages.append(page)
    return pages


def _page(name: str, records: Mapping[str, list[Row]], since: datetime | None) -> dict[str, Any]:
    clients = next(iter(records["clients"]), None)
    is_selection = any(gap["evidence"] in SELECTIONS for gap in records["gaps"])
    upgrade = "no_client"
    if clients:
        upgrade = "clients_at_risk" if clients["at_risk"] else "clients_served"
    facts = _facts(records, since)
    incidents = {row["number"]: row for row in records["incidents"]}
    counted = {**(clients or {}), "minutes": ceil((facts["span_s"] or 0) * 4 / 60)}
    rules = [_rule(row, records, counted) for row in records["decisions"]]
    order = [*rule_pages()]
    rules.sort(
        key=lambda rule: (
            rule["released"] is None,
            rule["reason"] == "no_requests",
            order.index(rule["rule"]),
        )
    )
    return {
        "recording": name,
        "facts": facts,
        "alerts": [*_alerts(records, rules)],
        # Of a selection of requests they would be of what was selected.
        "rates": [] if is_selection else _without_recording(records["rates"]),
        "findings": [_finding(row, incidents) for row in records["findings"]],
        "clients": {
            "clients": clients["clients"] if clients else 0,
            "at_risk": clients["at_risk"] if clients else 0,
            "says": stated()["reasons"][upgrade].format(newest=NEWEST, **(clients or {})),
        },
        "accuracy": accuracy_sentence(records["checks"]),
        "rules": {rule.pop("rule"): rule for rule in rules},
    }


def _without_recording(rows: Sequence[Row]) -> list[Row]:
    return [{name: row[name] for name in row if name != "recording"} for row in rows]


def _facts(records: Mapping[str, list[Row]], since: datetime | None) -> dict[str, Any]:
    """Counts the nodes, lines and requests of a recording, and says from when to when."""
    nodes = records["nodes"]
    first = min((node["first_at"] for node in nodes if node["first_at"]), default=None)
    last = max((node["last_at"] for node in nodes if node["last_at"]), default=None)
    contents = "\n".join(f"{node['node_id']}:{node['contents']}" for node in nodes)
    return {
        "kafka_version_stated": None,  # tables do not have it
        "kafka_versions": sorted({it for node in nodes for it in node["versions"] or ()}),
        "clusters": [row["cluster_id"] for row in records["clusters"]][:3],
        "first_at": first and f"{first:%Y-%m-%dT%H:%M:%SZ}",
        "last_at": last and f"{last:%Y-%m-%dT%H:%M:%SZ}",
        "span_s": (last - first).total_seconds() if first and last else None,
        "counted_since": since and f"{since:%Y-%m-%dT%H:%M:%SZ}",
        "nodes": len(nodes),
        "lines": sum(node["lines"] for node in nodes),
        "requests": sum(node["requests"] for node in nodes),
        # The same logs have the same.
        "contents": hashlib.blake2b(contents.encode(), digest_size=8).hexdigest(),
    }


def _finding(row: Row, incidents: Mapping[int, Row]) -> dict[str, Any]:
    """A row of ``findings`` with the sentences that it ``says``: its own, and what followed."""
    kept = ("code", "subject", "detail", "count", "population", "figure", "action", "statement")
    finding = {name: row[name] for name in kept}
    subject = words.shortened(row["subject"], 120)
    if row["incident"] is not None:
        incident = incidents[row["incident"]]
        alike = [it for it in incidents.values() if it["kind"] == row["code"] == "rebalance"]
        rebalances = [_rebalance(it) for it in alike if it["subjects"] == incident["subjects"]]
        own = {"subject": subject, "each": words.joined(rebalances or [""]), "count": row["count"]}
        if row["code"] == "rebalance":
            own["count"] = "once" if row["count"] == 1 else f"{row['count']} times"
            own["seconds"] = words.seconds(row["amount"] or 0)
        after = [it for it in incidents.values() if it["cause_number"] == incident["number"]]
        says = [_incident(incident, **own), *map(_incident, after)]
        return {**finding, "says": " ".join(says)}
    values = {**row, "subject": subject, "size": words.size(row["amount"])}
    values |= {"percent": f"{100 * row['figure']:.0f} %", "wait": words.milliseconds(row["amount"])}
    values["full"] = words.seconds(3_600_000 / row["amount"]) if row["amount"] else ""
    return {**finding, "says": stated()["findings"][row["code"]].format(**values)}


def _incident(row: Row, **own: object) -> str:
    """A row of ``incidents`` in words."""
    planned = {True: ", as requested", False: " without a controlled shutdown", None: ""}
    values = {
        **row,
        "planned": planned[row["is_planned"]],
        "seconds": words.seconds(row["worst_s"] or 0),
    }
    values |= {name: _clock(row[f"{name}_at"]) for name in ("begin", "end")}
    names = [words.shortened(name, 60) for name in row["subjects"]]
    more = (row["count"] or 0) - len(names)
    if row["kind"] in ("offline_partitions", "under_replicated", "below_min_isr") and more > 0:
        names.append(f"{more:,} more")
    values |= {"what": words.joined(names), "first": names[0]}
    clients = [words.shortened(name, 60) for name in row["clients"] or ()]
    values["clients"] = words.joined(clients or ["clients"])
    values["rate"] = (row["population"] or 0) / (row["worst_s"] or 1)
    values["at"] = "" if row["node_id"] is None else f" at node {row['node_id']}"
    values["by"] = f" ({words.shortened(row['caused_by'], 60)})" if row["caused_by"] else ""
    return str(stated()["findings"][row["kind"]].format(**{**values, **own}))


def _rebalance(row: Row) -> str:
    code, _, reason = row["cause"].partition(": ")
    by = words.shortened(row["caused_by"] or "a member", 60)
    says = stated()["rebalances"][code].format(begin=_clock(row["begin_at"]), by=by)
    return f"{says} ({words.shortened(reason, 60)})" if reason else says


def _clock(at: datetime | None) -> str:
    return f"{at:%H:%M:%S}" if at else "the end of these logs"


# --- rules ----------------------------------------------------------------------------------------


def _rule(decision: Row, records: Mapping[str, list[Row]], clients: Row) -> dict[str, Any]:
    """Puts a row of ``decisions`` into words: advice on a rule, figures, what it rests on."""
    rule, page = decision["rule"], rule_pages()[decision["rule"]]
    counted = {name: _typed(text) for name, text in dict(decision["facts"] or ()).items()}
    headlines = [row for row in records["headlines"] if row["rule"] == rule]
    gain = next((row for row in headlines if row["role"] == "gain"), None)
    who = words.named(gain["group_value"]) if gain else "replicas"
    figures = {row["name"]: row for row in rule_headlines(rule)}
    figure = figures.get(str(counted.get("lacks", gain and gain["figure"])), {})
    facts = {"slots": "an unknown number of", **counted, **clients, "who": who}
    facts |= {"basis": figure.get("basis", ""), "values": figure.get("values", "")}
    facts["without_most"] = words.shortened(str(counted.get("without_most")), 40)
    if "rate_from_us" in counted:
        facts["period"] = words.period(int(counted["rate_from_us"]), int(counted["rate_until_us"]))
    says = {name: row["says"].format(who=who) for name, row in figures.items()}
    effect = _effect(gain, says[gain["figure"]]) if gain else None
    if effect and words.is_known(effect):
        sides = {"before": effect["before"], "after": effect["after"]}
        sides["less"] = abs(effect["difference"])
        facts |= {name: words.in_unit(amount, effect["unit"]) for name, amount in sides.items()}
    checks = [row for row in records["checks"] if row["rule"] == rule]
    sentence, *more = _sentences(decision, page, facts)
    return {
        "rule": rule,
        "kip": page["kip"],
        "link": page.get("link"),
        "title": page["title"],
        "released": page.get("released"),
        "advice": decision["advice"],
        "reason": decision["reason"],
        "sentence": sentence,
        "more": more,
        "gain": effect,
        "price": [_effect(r, says[r["figure"]]) for r in headlines if r["role"] == "price"],
        "paste": decision["paste"],
        "rests_on": decision["rests_on"],
        "facts": counted,
        "accuracy": accuracy_sentence(checks),
    }


def _effect(row: Row, says: str) -> dict[str, Any]:
    """A row of ``headlines`` with its difference and in words."""
    kept = ("figure", "unit", "before_variant", "after_variant", "before", "after", "low", "high")
    difference = None if None in (row["before"], row["after"]) else row["after"] - row["before"]
    counts = {name: row[name] for name in ("count", "unknown_count")}
    return {name: row[name] for name in kept} | {"difference": difference, "says": says, **counts}


def _typed(text: str) -> bool | int | float | str:
    """The value of a fact, which ``decisions`` has as text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _sentences(decision: Row, page: Row, facts: Mapping[str, Any]) -> list[str]:
    """Says what to do, or why nothing; then what follows from what was counted."""
    own, shared, reason = page["reasons"], stated()["reasons"], decision["reason"]
    if reason == "selection":
        return [shared[reason]]
    # Of an unknown share, what to do may depend on what most of it is unknown for.
    texts = [own.get(facts.get("unknown_reason")) or own.get(reason) or shared[reason]]
    if decision["advice"] == Advice.IN_USE and "less" in facts:
        texts.append(own["without_it"])
    named = ("without", "without_percent", "without_rdkafka", "absent")
    texts += [own[name] for name in named if name in own and facts.get(name)]
    texts += [shared[name] for name in ("unknown_reason", "unknown_most") if name in facts]
    if decision["advice"] == Advice.DO:
        more = facts.get("more", f"{reason}_more")
        texts += [own[name] for name in (more, "then") if name in own]
        texts += [own["at_risk"]] if facts.get("at_risk") and "at_risk" in own else []
    return [text.format_map(facts) for text in texts]


# --- problems -------------------------------------------------------------------------------------


def _alerts(records: Mapping[str, list[Row]], rules: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Problems of a recording, and the verdicts that are withheld for them."""
    critical = [*_of_logs(records), *_missed(records, rules)]
    critical += [
        f"{words.count(row['failing_rows'], 'row')} of {row['table_name']} failed the "
        f"check {row['expectation']}; expected: {row['says']}"
        for row in records["failed"]
        if row["expectation"] not in STATED_CHECKS
    ]
    withheld = [rule["kip"] for rule in rules if rule["advice"] == Advice.WITHHELD]
    if len(critical) > MOST_ALERTS:
        more = f"{len(critical) - MOST_ALERTS} more; quality_results and log_gaps have all"
        critical = [*critical[:MOST_ALERTS], more]
    if withheld:
        kips = words.joined(withheld)
        critical.append(f"advice is withheld on {kips}; what brings it back is stated there")
    yield from ({"text": text, "is_critical": True} for text in critical)
    gaps = {gap["node_id"] for gap in records["gaps"]}
    why = "it was down, or is a controller without requests while another one was active"
    for node in records["nodes"]:
        if not node["requests"] and node["node_id"] not in gaps:
            text = f"the log of node {node['node_id']} is empty: {why}"
            yield {"text": text, "is_critical": False}


def _of_logs(records: Mapping[str, list[Row]]) -> Iterator[str]:
    """Warns of lines that are missing or not read, and of clocks that are apart."""
    for node in records["nodes"]:
        yield from (f"a log of node {node['node_id']} {damage}" for damage in node["damage"] or ())
    rejected = sum(node["rejected"] for node in records["nodes"])
    lines = sum(node["lines"] for node in records["nodes"])
    if rejected:
        listed = "they are listed under What was read"
        yield f"{rejected:,} of {lines:,} lines could not be read: {listed}"
    if not all(node["is_whole"] for node in records["nodes"]):
        yield "lines read are not the sum of requests, other, rejected and repeated lines"
    yield from gap_sentences(records["gaps"])
    yield from clock_sentences(records["clocks"])


def _missed(records: Mapping[str, list[Row]], rules: Sequence[Row]) -> Iterator[str]:
    """Self-checks and hard bounds that advice rests on, and that do not hold."""
    used = {
        (row["rule"], row["self_check"])
        for row in records["headlines"]
        if (row["self_check_error"] or 0) > 0
    }
    for rule in rules:
        missed = {
            row["metric"]
            for row in records["checks"]
            if row["rule"] == rule["rule"] and row["passed"] is False
            if row["kind"] == "bound" or (row["rule"], row["metric"]) in used
        }
        if missed and rule["advice"] in (Advice.DO, Advice.DONT, Advice.NO_RELEASE):
            what = ", ".join(words.named(name) for name in sorted(missed))
            yield f"{rule['kip']}: figures that its advice rests on failed their checks: {what}"


# --- what is shown --------------------------------------------------------------------------------


def _drawn(
    database: DuckDBPyConnection, name: str, page: Row, records: Mapping[str, list[Row]]
) -> dict[str, Any]:
    """Draws pictures, incidents that charts mark, and sections that are folded."""

    def blocks(specs: Sequence[Row], **values: object) -> list[Block]:
        made = (marks.block(database, spec, recording=name, **values) for spec in specs)
        return [block for block in made if block]

    across = [rule.name for rule in RULES.values() if "clocks_apart" in rule.facts]
    common = [
        {**section, "blocks": blocks(section["show"], across=across)}
        for section in stated()["section"]
    ]
    shared, rules = stated(), {}
    for rule in page["rules"]:
        own, headlines = rule_pages()[rule], [r for r in records["headlines"] if r["rule"] == rule]
        sides = [(row, row[f"{side}_variant"]) for row in headlines for side in ("before", "after")]
        metrics = {row["name"]: row["metric"] for row in rule_headlines(rule)}
        curves = [
            {"metric": metrics[row["figure"]].removesuffix("_sent_latest"), "variant": variant}
            | {name: row[name] for name in ("group_kind", "group_value")}
            for row, variant in sides
            if row["unit"] == "ms" and row["low"] is not None
        ]
        values = {"rule": rule, "curves": curves, "metrics": [*own["metrics"]]}
        values["variants"] = [variant for _, variant in sides] or [*own["variants"], "recorded"]
        specs = [*(shared["before"] if curves else ()), *own.get("show", ()), *shared["behind"]]
        rules[rule] = blocks(specs, **values)
    bands = [band(row) for row in records["bands"]]
    pictures = blocks(shared["picture"])
    return {"sections": common, "blocks": rules, "bands": bands, "pictures": pictures}


def band(row: Row) -> tuple[float, float | None, bool, str]:
    """An incident that charts mark: from when to when, whether it was planned, and words."""
    begin, end = row["begin_at"], row["end_at"]
    kind = f"{row['kind'].replace('_', ' ')}{', planned' * bool(row['is_planned'])}"
    subjects = row["subjects"] or []
    what = ": ".join(filter(None, (kind, ", ".join(subjects[:2] + ["…"] * (len(subjects) > 2)))))
    until = f"to {end:%H:%M:%S}" if end else "until after these logs"
    text = f"{words.visible(words.shortened(what, 120))}, {begin:%H:%M:%S} {until}"
    return begin.timestamp(), end and end.timestamp(), bool(row["is_planned"]), text


def accuracy_sentence(rows: Iterable[Row]) -> str:
    """Counts those of each kind that pass: kinds are never added up."""
    judged = [row for row in rows if row["tolerance"] is not None]
    counts = []
    for kind, (_, names) in KINDS.items():
        passed = [bool(row["passed"]) for row in judged if row["kind"] == kind]
        if passed:
            text = f"{words.number(sum(passed))} of {words.count(len(passed), *names)}"
            is_one = 1 in (sum(passed), len(passed))
            lies = f"{'lies' if is_one else 'lie'} within tolerance"
            holds = f"hold{'s' if is_one else ''}"
            counts.append(f"{text} {holds if kind is Kind.BOUND else lies}")
    if not counts:
        return "No prediction was checked against a recording."
    return f"{'; '.join(counts)}."
