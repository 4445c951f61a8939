"""Runs on a sample recording that comes with this program, and opens the report."""

import shlex
import tempfile
import webbrowser
from dataclasses import replace
from pathlib import Path

from kip_replay.jobs import run
from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.pipelines.report.page import REPORT_NAME
from kip_replay.pipelines.rule_files import ROOT

#: The smallest sample; the wheel has it too.
SAMPLE = ROOT / "data" / "samples" / "metadata-4.0"

PARSER = JobParser(
    "demo",
    "Runs on a recording that comes with this program, of a Kafka 4.0 cluster with three brokers "
    "(5 MB of log), and opens the report: in about four seconds, without Java, Kafka or logs of "
    "yours.",
    """  kip-replay demo
  kip-replay demo --no-open --warehouse demo""",
    is_temporary=True,
)
PARSER.add_argument("--no-open", action="store_true", help="open no browser, only print the path")


def work(job: Job) -> Exit:
    warehouse = job.warehouse_path or tempfile.mkdtemp(prefix="kip-replay-demo-")
    arguments = [str(SAMPLE), "--warehouse", warehouse, "--engine", "local"]
    status = run.work(replace(job, arguments=run.PARSER.parse_args(arguments)))
    page = Path(warehouse).absolute() / REPORT_NAME
    if not job.arguments.no_open and not webbrowser.open(page.as_uri()):
        say(f"no browser was found: open {page} in one")
    say("")
    query = '"FROM slowest_requests LIMIT 20"'
    say(f"next: kip-replay sql {query} --warehouse {shlex.quote(warehouse)}")
    say("and with logs of yours: kip-replay plan FOLDER, then kip-replay run FOLDER")
    return status


main = command(PARSER, work, __name__)
