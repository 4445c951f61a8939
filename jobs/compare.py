"""Says what differs between two recordings of a cluster, or how well one predicts the other."""

import json
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from kip_replay.jobs._cli import Exit, Job, JobParser, command, in_columns, say
from kip_replay.jobs._steps import TABLES_OF_STEPS
from kip_replay.pipelines.analysis.accuracy import accuracy_rows, figure, measure_name
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.summarize import summarize
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.pages import accuracy_sentence
from kip_replay.pipelines.rule_files import Kind, rule_pages
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse, sql_text
from kip_replay.replay.tables import PredictionAccuracy

PARSER = JobParser(
    "compare",
    "Says what is different in AFTER, a recording of the same cluster as BEFORE, such as a week "
    "later: p99 by API, requests and bytes by client and topic, which are new or gone, errors, "
    "incidents and advice. Rates are over a whole recording, so record at the same time of day.\n\n"
    "With --predictions it predicts AFTER from BEFORE: what BEFORE's log says would happen under "
    "the rules that AFTER's brokers ran, beside what they did. It prints the figures that are "
    "outside of their tolerance. That is fair if both show the same work on two "
    "clusters; a recording and itself is a self-check. The figures are added to the table "
    "prediction_accuracy, and so to the next report. Without names, it writes nothing and prints "
    "what was predicted before, also by runs on recordings of one scenario and seed.\n\n"
    "Both must be in the warehouse and replayed (`kip-replay run`).",
    """  kip-replay compare prod-monday prod-after
  kip-replay compare prod-monday prod-after --fail-on 'p99_produce_ms grew > 20 %'
  kip-replay compare --predictions
  kip-replay compare --predictions metadata-4.0 metadata-4.1 (with and without KIP-1166)
  kip-replay compare --predictions sessions-off sessions-on  (with and without fetch sessions)
  kip-replay compare --predictions metadata-4.1 metadata-4.1 --all (a self-check, every figure)""",
)
#: A figure of all requests or of an API, and how much of a change is too much.
_CONDITION = re.compile(
    r"(p99_\w+_ms|requests_per_second|bytes_per_second|errors_per_hour) (grew|fell) *> *([\d.]+) *%"
)
_CHANGES = """
SELECT kind, name, figure, b.value AS before, a.value AS after,
  b.says AS advice_before, a.says AS advice_after,
  if(a.value = b.value, 0, 100 * (a.value - b.value) / nullif(b.value, 0)) AS percent
FROM (FROM recording_figures WHERE recording = {}) AS b
FULL JOIN (FROM recording_figures WHERE recording = {}) AS a USING (kind, name, figure)
ORDER BY ALL"""
#: Kinds of what may be new or gone.
_WHO = ("client", "topic")
#: Changes that a line names, at most.
_NAMED = 4
_Row = Mapping[str, Any]
_Rows = Sequence[_Row]


def _condition(text: str) -> str:
    if _CONDITION.fullmatch(text):
        return text
    raise ArgumentTypeError(f"{text!r}: write such as 'p99_produce_ms grew > 20 %'")


for _name in ("before", "after"):
    PARSER.add_argument(_name, nargs="?", metavar=_name.upper(), help="name of a recording")
PARSER.add_argument("--predictions", action="store_true", help="predict AFTER from BEFORE")
PARSER.add_argument("--all", action="store_true", help="print every figure that was predicted")
PARSER.add_argument(
    "--format",
    choices=("text", "json"),
    default="text",
    help="text: ten lines, what changed most (default); json: all figures",
)
PARSER.add_argument(
    "--fail-on",
    metavar="CONDITION",
    action="append",
    default=[],
    type=_condition,
    help="end with status 4 if a figure (p99_API_ms, requests_per_second, bytes_per_second, "
    "errors_per_hour) grew or fell by more, or is not known: 'p99_produce_ms grew > 20 %%'",
)


def work(job: Job) -> Exit:
    wanted = [name for name in (job.arguments.before, job.arguments.after) if name is not None]
    if len(wanted) == 1:
        raise UserError(f"compare {wanted[0]} with what? Name a second recording, or {wanted[0]}")
    if job.arguments.predictions:
        if job.arguments.fail_on:
            raise UserError("--fail-on is for differences, not for --predictions")
        return _predicted(job, wanted)
    if not wanted:
        raise UserError("name two recordings to compare, or give --predictions")
    names = [*job.named(wanted, writes=False)]
    before, after = names[0], names[-1]
    statement = _CHANGES.format(sql_text(before), sql_text(after))
    rows = Catalog(job.warehouse(writes=False).path, read_views()).arrow(statement).to_pylist()
    if job.arguments.format == "json":
        print(json.dumps({"before": before, "after": after, "figures": rows}, indent=2))
    else:
        say(f"{after} against {before}", *in_columns([*_lines(rows)]))
    met = [text for condition in job.arguments.fail_on for text in _met(condition, rows)]
    print(*met, sep="\n", end="\n" * bool(met), file=sys.stderr)
    return Exit.UNWELCOME if met else Exit.DONE


def _met(condition: str, rows: _Rows) -> Iterator[str]:
    """Says where a condition is met; a figure that was 0 grew by more than any limit."""
    figure, way, limit = re.fullmatch(_CONDITION, condition).groups()  # type: ignore[union-attr]
    of_all = [row for row in rows if row["figure"] == figure and row["kind"] in ("all", "api")]
    known = [row for row in of_all if None not in (row["before"], row["after"])]
    for row in known:
        percent = float("inf") if row["percent"] is None else row["percent"]
        if (percent if way == "grew" else -percent) > float(limit):
            yield f"--fail-on {condition}: {_change(row)}"
    if not known:
        yield f"--fail-on {condition}: not known"


def _change(row: _Row) -> str:
    """'12.1 to 14.3 (+18 %)'."""
    ends = (words.number(row[end], 1 if row[end] < 100 else 0) for end in ("before", "after"))
    percent = "" if row["percent"] is None else f" ({row['percent']:+.0f} %)"
    return f"{' to '.join(ends)}{percent}"


def _lines(rows: _Rows) -> Iterator[tuple[str, str]]:
    """Lists by kind what changed most, and which names are new or gone."""
    yield "p99, ms", _most(rows, "api")
    for unit in ("requests", "bytes"):
        most = [_most(rows, kind, unit) for kind in ("all", "client", "topic")]
        yield f"{unit}/s", "all: {}; clients: {}; topics: {}".format(*most)
    for title, end in (("new", "before"), ("gone", "after")):
        lacking = [r for r in rows if r["figure"] == "requests_per_second" and r[end] is None]
        names = {kind: [r["name"] for r in lacking if r["kind"] == kind] for kind in _WHO}
        yield title, "; ".join(f"{kind}s: {_listed(lacked)}" for kind, lacked in names.items())
    # What a recording does not have did not happen.
    counted = [{**row, "before": row["before"] or 0, "after": row["after"] or 0} for row in rows]
    yield "errors an hour", _most(counted, "error")
    yield "incidents", _most(counted, "incident")
    other = [row for row in rows if row["advice_before"] != row["advice_after"]]
    advice = (f"{row['name']} {row['advice_before']} to {row['advice_after']}" for row in other)
    yield "advice", "; ".join(advice) or "the same"


def _most(rows: _Rows, kind: str, figure: str = "") -> str:
    """Figures of a kind that changed most, with their names; times by per cent."""
    of_kind = [row for row in rows if row["kind"] == kind and row["figure"].startswith(figure)]
    both = [row for row in of_kind if None not in (row["before"], row["after"])]
    sized = [
        (abs(r["percent"] or 0 if kind == "api" else r["after"] - r["before"]), r) for r in both
    ]
    changed = sorted((pair for pair in sized if pair[0]), key=itemgetter(0), reverse=True)
    named = (f"{words.visible(row['name'])} {_change(row)}" for _, row in changed[:_NAMED])
    return "; ".join(named).removeprefix("all ") or "the same"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(map(words.visible, names[:_NAMED])) + more or "none"


def _predicted(job: Job, wanted: Sequence[str]) -> Exit:
    names = [*job.named(wanted, writes=bool(wanted))]
    warehouse = job.warehouse(writes=bool(wanted))
    lineage = warehouse.lineage(names)
    if wanted:
        pairs = [(names[0], names[-1])]
        summarize(names, Local(warehouse), RULES, pairs, lambda _: None)
    else:
        judged = {(r["recording"], r["recorded_in"]) for r in accuracy_rows(warehouse, names)}
        pairs = sorted((before, after) for before, after in judged if before != after)
    if not pairs:
        say("no run has compared recordings of one scenario and seed: name two")
    for before, after in pairs:
        _compare(warehouse, before, after, job.arguments.all)
    if wanted:
        steps = {step for (_, step), _ in warehouse.lineage(names).items() - lineage.items()}
        tables = {t.name for s in steps for t in TABLES_OF_STEPS.get(s, (PredictionAccuracy,))}
        say(f"written: {', '.join(sorted(tables)) or 'nothing, these figures were there'}")
    return Exit.DONE


def _compare(warehouse: Warehouse, before: str, after: str, is_all: bool) -> None:
    """Prints the figures that missed their tolerance, or all."""
    rows = accuracy_rows(warehouse, [before], [after])
    say(f"{after} predicted from {before}: {accuracy_sentence(rows)}")
    lines = [
        (
            rule_pages()[row["rule"]]["kip"],
            measure_name(row),
            *(figure(row[name]) for name in ("predicted", "recorded")),
            _verdict(row),
        )
        for row in rows
        if is_all or row["passed"] is False
    ]
    note = "" if is_all else f"(outside of their tolerance; --all has {len(rows)} figures)"
    say(*in_columns([("", "", "predicted", "recorded", note), *lines], right={2, 3}))


def _verdict(row: _Row) -> str:
    if row["tolerance"] is None:
        return "two runs of one protocol" if row["kind"] == Kind.TWO_RUNS else "not judged"
    return f"{'within' if row['passed'] else 'NOT WITHIN'} {figure(row['tolerance'])}"


main = command(PARSER, work, __name__)
