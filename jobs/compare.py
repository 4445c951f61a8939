"""Predicts one recording from another and prints prediction and recording side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from kip_replay.jobs._cli import Exit, Job, JobParser, command, in_columns, say
from kip_replay.jobs._steps import TABLES_OF_STEPS
from kip_replay.pipelines.analysis.accuracy import accuracy_rows
from kip_replay.pipelines.analysis.summarize import summarize
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.pages import accuracy_sentence
from kip_replay.pipelines.rule_files import Kind, rule_headlines, rule_pages
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import PredictionAccuracy

PARSER = JobParser(
    "compare",
    "Predicts AFTER from BEFORE: what BEFORE's log says would happen under the rules that AFTER's "
    "brokers ran, beside what they did. Prints two figures of each rule: what is off by more than "
    "its tolerance first.\n\n"
    "Both must be in the warehouse, replayed (`kip-replay run`). They are compared fairly if both "
    "show the same work on two clusters. A recording compared with itself is a self-check. "
    "The figures are added to the table prediction_accuracy, and so to the next report.\n\n"
    "Without names, writes nothing and prints what was compared before, by this command or by runs "
    "on recordings of one scenario and seed.",
    """  kip-replay compare
  kip-replay compare metadata-4.0 metadata-4.1            (with and without KIP-1166)
  kip-replay compare sessions-off sessions-on             (with and without fetch sessions)
  kip-replay compare acks-slow-follower acks-two-replicas (three replicas, and two)
  kip-replay compare metadata-4.1 metadata-4.1 --all      (a self-check, every figure)""",
)
for _name in ("before", "after"):
    PARSER.add_argument(_name, nargs="?", metavar=_name.upper(), help="name of a recording")
PARSER.add_argument("--all", action="store_true", help="print every figure")
#: Figures of a rule without ``--all``: five rules and three other lines make thirteen.
_FIGURES_OF_RULE = 2


def work(job: Job) -> Exit:
    given = [name for name in (job.arguments.before, job.arguments.after) if name is not None]
    if len(given) == 1:
        raise UserError(f"compare {given[0]} with what? Name a second recording, or {given[0]}")
    names = [*job.named(given, writes=bool(given))]
    warehouse = job.warehouse(writes=bool(given))
    lineage = warehouse.lineage(names)
    if given:
        pairs = [(names[0], names[-1])]
        summarize(names, Local(warehouse), RULES, pairs, lambda _: None)
    else:
        judged = {(r["recording"], r["recorded_in"]) for r in accuracy_rows(warehouse, names)}
        pairs = sorted((before, after) for before, after in judged if before != after)
    if not pairs:
        say("no run has compared recordings of one scenario and seed: name two")
    for before, after in pairs:
        _compare(warehouse, before, after, job.arguments.all)
    if given:
        steps = {step for (_, step), _ in warehouse.lineage(names).items() - lineage.items()}
        tables = {t.name for s in steps for t in TABLES_OF_STEPS.get(s, (PredictionAccuracy,))}
        say(f"written: {', '.join(sorted(tables)) or 'nothing, these figures were there'}")
    return Exit.DONE


def _compare(warehouse: Warehouse, before: str, after: str, is_all: bool) -> None:
    rows = accuracy_rows(warehouse, [before], [after])
    say(f"{after} predicted from {before}: {accuracy_sentence(rows)}")
    most = None if is_all else _FIGURES_OF_RULE
    lines = [line for steps in RULES for line in _figures(steps.name, rows, most)]
    note = "" if is_all else f"(of {len(rows)} figures, --all has the others)"
    say(*in_columns([("", "", "predicted", "recorded", note), *lines], right={2, 3}))


def _figures(
    rule: str, rows: Sequence[Mapping[str, Any]], most: int | None
) -> Sequence[Sequence[str]]:
    """A rule's figures in words: what missed its tolerance, then headlines, then what is judged.

    ``most``: of this many metrics, the first of each.
    """
    kip, names = (rule_pages()[rule][key] for key in ("kip", "metrics"))
    checks = [headline.get("self_check") for headline in rule_headlines(rule)]

    def place(row: Mapping[str, Any]) -> tuple[bool, bool, int, str, str]:
        metric = row["metric"]
        at = checks.index(metric) if metric in checks else len(checks)
        return row["passed"] is not False, row["tolerance"] is None, at, metric, row["group_value"]

    shown = sorted((row for row in rows if row["rule"] == rule), key=place)
    if most is not None:
        named = [row for row in shown if row["metric"] in names]
        shown = [*{row["metric"]: row for row in reversed(named)}.values()]
        shown = sorted(shown, key=place)[:most]
    lines = []
    for row in shown:
        group = row["group_value"]
        where = f", node {group}" if group.isdecimal() else f", {words.named(group)}"
        figures = (_in_words(row[name], row["unit"]) for name in ("predicted", "recorded"))
        name = names.get(row["metric"], row["metric"]) + ("" if group == "all" else where)
        lines.append((kip, name, *figures, _verdict(row)))
    return lines or [(kip, "nothing that both recordings show", "", "", "")]


def _verdict(row: Mapping[str, Any]) -> str:
    if row["tolerance"] is None:
        return "two runs of one protocol" if row["kind"] == Kind.TWO_RUNS else "not judged"
    if row["error"] is None:
        return "not known: counts as off"
    off, limit = (_in_words(value, row["unit"]) for value in (abs(row["error"]), row["tolerance"]))
    return f"off by {off}, {'within' if row['passed'] else 'MORE THAN'} {limit}"


def _in_words(value: float | None, unit: str) -> str:
    if value is None:
        return words.NOT_KNOWN
    match unit:
        case "share":
            return f"{words.number(100 * value, 2)} %"
        case "count":
            return words.number(value)
        case "bytes":
            return words.size(value)
    return words.in_unit(value, {"bytes/s": "B/s", "1/s": "/s"}.get(unit, unit))


main = command(PARSER, work, __name__)
