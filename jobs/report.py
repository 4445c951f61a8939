"""Writes the report: what to do about each rule, on recordings that were replayed and summed up."""

import sys

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import is_unwelcome, state_versions
from kip_replay.pipelines.analysis.decide import decided_anew
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.report.page import FORMATS, REPORT_NAME, render, write_page
from kip_replay.pipelines.report.pages import read_pages
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.storage import place_of
from kip_replay.pipelines.warehouse.steps import recent_of

PARSER = JobParser(
    "report",
    "Writes one self-contained HTML page on recordings in the warehouse: what to do about "
    "each rule, what that gains and costs, how accurate it is and what was read. `run` ends "
    "with it.",
    """  kip-replay report
  kip-replay report metadata-4.0 --output metadata-4.0.html
  kip-replay report metadata-4.0 --format json | jq .recordings[].rules
  kip-replay report --format openmetrics   # for a textfile collector, every hour""",
    JobParser.with_names,
    JobParser.with_fail_on,
)
PARSER.add_argument(
    "--output",
    metavar="FILE",
    help=f"the page (default: {REPORT_NAME} in the warehouse; other formats: stdout)",
)
PARSER.add_argument("--format", choices=FORMATS, default="html", help="default: html")


def work(job: Job) -> Exit:
    output, form = job.arguments.output, job.arguments.format
    named = job.named(job.arguments.recordings, writes=form == "html" and not output)
    names = [*named]
    to_stdout = form != "html" and not output
    warehouse = job.warehouse(writes=not (output or to_stdout))
    # Under other limits than the run's, what the page says is decided anew and kept nowhere.
    decided = decided_anew(Local(warehouse), names, RULES, job.config)
    recent = recent_of(warehouse, names, job.config["replay"]["recent_minutes"])
    is_drawn, limits = form == "html", job.config["findings"]
    read = read_pages(recent, names, is_drawn, decided, limits)
    state_versions(read, filter(None, named.values()))
    text = render(read, form)
    unwelcome = is_unwelcome(read, job.arguments.fail_on, warehouse)
    status = Exit.UNWELCOME if unwelcome else Exit.DONE
    if to_stdout:
        sys.stdout.write(text)
        return status
    path = place_of(output or place_of(job.warehouse_path) / REPORT_NAME)
    write_page(path, text)
    say(f"report: {path}")
    return status


main = command(PARSER, work, __name__)
