"""``kip-replay``: the jobs as commands. Only the module of the one given is imported."""

import difflib
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from kip_replay.pipelines import ready_process

#: A module of this package each, in the order in which they are used.
JOBS = {
    "demo": "run on a sample that comes with this program, and open its report",
    "record": "switch request logs on, collect them, switch them off",
    "plan": "say which node logged what and when, what is missing, how long a run takes",
    "run": "make a report from logs: ingest, replay, summarize, check, report",
    "report": "write a report on recordings that were run",
    "compare": "say what differs between two recordings, or how one predicts the other",
    "sql": "ask the tables and views of the warehouse",
    "anonymize": "replace the names in logs, so that they can be sent with a bug report",
    "recordings": "list, show or delete the recordings of the warehouse",
    "ingest": "one step of run: read logs into tables, every line once",
    "replay": "one step of run: replay what is read under every rule",
    "summarize": "one step of run: sum up, and judge predictions",
    "check": "one step of run: check the tables",
    "catalog": "register the tables in a catalog of Spark, for other SQL engines",
    "maintain": "keep a warehouse small: compact, drop old recordings, vacuum",
}
_HELP = """usage: kip-replay COMMAND ...

What would a Kafka protocol change do to your cluster? This replays the request
logs of brokers and controllers under proposals, into tables and a report.

from a folder of logs to a decision (kip-replay demo needs none):
  kip-replay plan my-recording    what its logs have and lack, in seconds
  kip-replay run my-recording     read, replay, check; ends with the report's path
  kip-replay sql "FROM slowest_requests LIMIT 20"    questions of your own

commands, in the order in which they are needed:
{jobs}

options:
  --help     this; kip-replay COMMAND --help shows options and examples
  --version  the version of this program
  --home     the folder of jobs/ (for spark-submit) and conf/ (cluster, schedules, settings)"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a job: returns 0, or raises SystemExit with the job's status."""
    name, *arguments = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if argv is None and (name == "help" or {"-h", "--help"} & {name, *arguments}):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends help where `head` has enough
    if name == "help" and arguments:
        name, arguments = arguments[0], ["--help"]
    if name in ("-h", "--help", "help"):
        print(_HELP.format(jobs="\n".join(f"  {job:12}{line}" for job, line in JOBS.items())))
    elif name == "--version":
        print(f"kip-replay {import_module('kip_replay.replay.tables').VERSION}")
    elif name == "--home":
        print(Path(__file__).resolve().parent.parent)
    elif name not in JOBS:
        near = difflib.get_close_matches(name, JOBS, n=1)
        meant = f"is {near[0]!r} meant? " if near else ""
        print(f"error: there is no command {name!r}: {meant}kip-replay --help", file=sys.stderr)
        sys.exit(2)
    else:
        if argv is None:  # else it is the process of who calls this
            ready_process()
        # Raised, not returned: who calls an entry point may drop what it returns (Databricks does).
        if status := import_module(f"kip_replay.jobs.{name}").main(arguments):
            sys.exit(status)
    return 0


if __name__ == "__main__":
    main()
