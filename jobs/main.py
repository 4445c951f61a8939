"""``kip-replay``: the jobs as subcommands. Only the module of the one given is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

#: A module of this package each, in the order in which they are used.
JOBS = {
    "run": "raw logs to report: ingest, replay, summarize, check, report",
    "ingest": "read request logs into Delta tables, every line once",
    "replay": "replay what is read under every rule",
    "summarize": "sum up what is replayed, and judge predictions",
    "check": "check the tables",
    "report": "write the HTML report",
    "compare": "predict one recording from another, side by side",
    "sql": "query the warehouse",
    "recordings": "list, show or delete recordings",
    "maintain": "compact, drop old recordings, vacuum",
}
_HELP = """usage: kip-replay JOB ...

Replays Kafka request logs under the rules of proposals, into Delta tables and a report.

jobs (kip-replay JOB --help shows options and examples):
{jobs}

options:
  --help   show this help
  --home   show the folder of jobs/ (for spark-submit) and conf/ (cluster, schedules, settings)"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job: returns 0, or raises SystemExit with the job's status."""
    name, *arguments = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(_HELP.format(jobs="\n".join(f"  {job:12}{line}" for job, line in JOBS.items())))
    elif name == "--home":
        print(Path(__file__).resolve().parent.parent)
    elif name not in JOBS:
        print(f"error: there is no job {name!r}: kip-replay --help lists them", file=sys.stderr)
        sys.exit(2)
    # Raised, not returned: who calls an entry point may drop what it returns (Databricks does).
    elif status := import_module(f"kip_replay.jobs.{name}").main(arguments):
        sys.exit(status)
    return 0


if __name__ == "__main__":
    main()
