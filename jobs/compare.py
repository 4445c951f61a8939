"""Predicts one recording from another and prints prediction and recording side by side."""

from __future__ import annotations

from pathlib import Path

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import say_all
from kip_replay.pipelines.analysis.predictions import accuracy_line, accuracy_rows, side_by_side
from kip_replay.pipelines.analysis.summarize import summarize
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.recording import load_recordings
from kip_replay.pipelines.rules import RULES

PARSER = JobParser(
    "compare",
    "Predicts AFTER from BEFORE: what BEFORE's log says would happen under the rules that AFTER's "
    "brokers ran, beside what they did. Both must have been replayed (`run`) into the "
    "warehouse; they are compared fairly if both show the same work on two clusters.",
    """  kip-replay compare metadata-4.0 metadata-4.1            (with and without KIP-1166)
  kip-replay compare sessions-off sessions-on             (with and without fetch sessions)
  kip-replay compare acks-slow-follower acks-two-replicas (three replicas, and two)
  kip-replay compare metadata-4.1 metadata-4.1            (a self-check)""",
)
for _name in ("before", "after"):
    PARSER.add_argument(_name, metavar=_name.upper(), help="name or folder of a recording")


def name_of(recording: str) -> str:
    """The name of a recording that is given by its name or by its folder."""
    if (Path(recording) / MANIFEST).is_file():
        return load_recordings([recording])[0].name
    return recording


def work(job: Job) -> Exit:
    before, after = name_of(job.arguments.before), name_of(job.arguments.after)
    warehouse = job.warehouse()
    names = [before] if before == after else [before, after]
    summarize(names, warehouse, [(before, after)], say)
    rows = accuracy_rows(warehouse, [before], [after])
    say(f"{after} predicted from {before}")
    say_all(side_by_side(rows))
    for rule in RULES:
        if rule.name not in {row["rule"] for row in rows}:
            say(f"{rule.name}: {before} shows nothing that {after} recorded")
    say(accuracy_line(rows))
    return Exit.DONE


main = command(PARSER, work, __name__)
