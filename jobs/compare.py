"""Predicts one recording from another and prints prediction and recording side by side."""

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import TABLES_OF_STEPS
from kip_replay.pipelines.analysis.predictions import accuracy_rows, side_by_side
from kip_replay.pipelines.analysis.summarize import summarize
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report.accuracy import sentence
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import PREDICTION_ACCURACY

PARSER = JobParser(
    "compare",
    "Predicts AFTER from BEFORE: what BEFORE's log says would happen under the rules that AFTER's "
    "brokers ran, beside what they did.\n\n"
    "Both must be in the warehouse, replayed (`kip-replay run`). They are compared fairly if both "
    "show the same work on two clusters. A recording compared with itself is a self-check. "
    "The figures are added to the table prediction_accuracy, and so to the next report.\n\n"
    "Without names, writes nothing and prints what was compared before, by this command or by runs "
    "on recordings of one scenario and seed.",
    """  kip-replay compare
  kip-replay compare metadata-4.0 metadata-4.1            (with and without KIP-1166)
  kip-replay compare sessions-off sessions-on             (with and without fetch sessions)
  kip-replay compare acks-slow-follower acks-two-replicas (three replicas, and two)
  kip-replay compare metadata-4.1 metadata-4.1            (a self-check)""",
)
for _name in ("before", "after"):
    PARSER.add_argument(_name, nargs="?", metavar=_name.upper(), help="name of a recording")


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
        _compare(warehouse, before, after)
    if given:
        steps = {step for (_, step), _ in warehouse.lineage(names).items() - lineage.items()}
        tables = {t.name for s in steps for t in TABLES_OF_STEPS.get(s, (PREDICTION_ACCURACY,))}
        say(f"written: {', '.join(sorted(tables)) or 'nothing, the warehouse has these figures'}")
    return Exit.DONE


def _compare(warehouse: Warehouse, before: str, after: str) -> None:
    rows = accuracy_rows(warehouse, [before], [after])
    say(f"{after} predicted from {before}")
    say(*side_by_side(rows))
    for rule in RULES:
        if rule.name not in {row["rule"] for row in rows}:
            say(f"{rule.name}: {before} shows nothing that {after} recorded")
    say(f"predictions: {sentence(rows)}")


main = command(PARSER, work, __name__)
