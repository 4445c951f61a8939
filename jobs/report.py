"""Writes the report: what to do about each rule, on recordings that were replayed and summed up."""

from __future__ import annotations

import sys
from pathlib import Path

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import kafka_versions_of, names_of
from kip_replay.pipelines.report.data import read_report
from kip_replay.pipelines.report.page import FORMATS, REPORT_NAME, text_of, write_report

PARSER = JobParser(
    "report",
    "Writes one self-contained HTML page on recordings that `summarize` has summed up: what to do "
    "about each rule, what that gains and costs, how accurate it is and what was read.",
    """  kip-replay report data/samples/metadata-4.0
  kip-replay report data/samples/metadata-4.0 --output metadata-4.0.html
  kip-replay report data/samples/metadata-4.0 --format json | jq .pages[].rules""",
).with_recordings()
PARSER.add_argument(
    "--output",
    metavar="FILE",
    help=f"the page (default: {REPORT_NAME} in the warehouse; JSON and Markdown: stdout)",
)
PARSER.add_argument("--format", choices=[*FORMATS], default="html", help="default: html")


def work(job: Job) -> Exit:
    """Reports on the recordings named."""
    recordings = job.recordings()
    output, form = job.arguments.output, job.arguments.format
    names, versions = names_of(recordings), kafka_versions_of(recordings)
    if form != "html" and not output:
        report = read_report(job.warehouse(writes=False), names, versions)
        sys.stdout.write(text_of(report, job.config, form))
        return Exit.DONE
    path = Path(output or Path(job.warehouse_path) / REPORT_NAME)
    warehouse = job.warehouse(writes=not output)
    say(f"report: {write_report(warehouse, names, path, job.config, versions, form=form)}")
    return Exit.DONE


main = command(PARSER, work, __name__)
