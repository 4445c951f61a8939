"""Writes the report: one HTML page on recordings that were replayed and summed up."""

from __future__ import annotations

from pathlib import Path

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import kafka_versions_of, names_of
from kip_replay.pipelines.report.page import REPORT_NAME, write_report

PARSER = JobParser(
    "report",
    "Writes one self-contained HTML page on recordings that `summarize` has summed up: what "
    "each rule would do to the cluster, what that costs, how accurate it is and what was read.",
    """  kip-replay report data/samples/metadata-4.0
  kip-replay report data/samples/metadata-4.0 --output metadata-4.0.html""",
).with_recordings()
PARSER.add_argument(
    "--output", metavar="FILE", help=f"the page (default: {REPORT_NAME} in the warehouse)"
)


def work(job: Job) -> Exit:
    """Reports on the recordings named."""
    recordings = job.recordings()
    output = job.arguments.output
    path = Path(output or Path(job.warehouse_path) / REPORT_NAME)
    versions = kafka_versions_of(recordings)
    warehouse = job.warehouse(writes=not output)
    say(f"report: {write_report(warehouse, names_of(recordings), path, versions)}")
    return Exit.DONE


main = command(PARSER, work, __name__)
