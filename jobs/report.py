"""Writes the report: what to do about each rule, on recordings that were replayed and summed up."""

import sys
from pathlib import Path

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import kafka_versions_of, report_fingerprint
from kip_replay.pipelines.report.data import read_report
from kip_replay.pipelines.report.decided import decided
from kip_replay.pipelines.report.page import FORMATS, REPORT_NAME, write_page
from kip_replay.pipelines.report.pages import pages

PARSER = JobParser(
    "report",
    "Writes one self-contained HTML page on recordings in the warehouse: what to do about each "
    "rule, what that gains and costs, how accurate it is and what was read. `run` ends with it.",
    """  kip-replay report
  kip-replay report metadata-4.0 --output metadata-4.0.html
  kip-replay report metadata-4.0 --format json | jq .pages[].rules""",
).with_names()
PARSER.add_argument(
    "--output",
    metavar="FILE",
    help=f"the page (default: {REPORT_NAME} in the warehouse; JSON and Markdown: stdout)",
)
PARSER.add_argument("--format", choices=[*FORMATS], default="html", help="default: html")


def work(job: Job) -> Exit:
    output, form = job.arguments.output, job.arguments.format
    named = job.named(job.arguments.recordings, writes=form == "html" and not output)
    names, versions = [*named], kafka_versions_of([r for r in named.values() if r])
    to_stdout = form != "html" and not output
    warehouse = job.warehouse(writes=not (output or to_stdout))
    fingerprint = report_fingerprint(names, warehouse, versions, job.config)
    found = pages(read_report(warehouse, names, versions), job.config)
    found = decided(warehouse, found, fingerprint, writes=not (output or to_stdout))
    text = FORMATS[form](found)
    if to_stdout:
        sys.stdout.write(text)
        return Exit.DONE
    path = Path(output or Path(job.warehouse_path) / REPORT_NAME)
    write_page(path, text)
    say(f"report: {path}")
    return Exit.DONE


main = command(PARSER, work, __name__)
