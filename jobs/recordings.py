"""The recordings in a warehouse: lists them, deletes one."""

import sys
from collections.abc import Sequence
from datetime import datetime

from kip_replay.jobs._cli import (
    Exit,
    Job,
    JobParser,
    command,
    in_columns,
    say,
    size_text,
    unknown_name,
)
from kip_replay.jobs._steps import TABLES_OF_STEPS
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.printable import visible
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse import recordings
from kip_replay.pipelines.warehouse.recordings import StoredRecording

PARSER = JobParser(
    "recordings",
    "The recordings in a warehouse. `list`: name, Kafka version, time, nodes, requests, size, "
    "rules replayed.\n\n"
    "`delete` takes one out of every table (its log files stay); `kip-replay maintain` then frees "
    "the space, after the retention.",
    """  kip-replay recordings
  kip-replay recordings --warehouse /data/warehouse
  kip-replay recordings delete friday --yes""",
)
PARSER.add_argument(
    "action", choices=("list", "delete"), nargs="?", default="list", help="default: list"
)
PARSER.add_argument("recording", nargs="?", metavar="NAME", help="name of a recording")
PARSER.add_argument("--yes", action="store_true", help="delete without a question")


def work(job: Job) -> Exit:
    action, name = job.arguments.action, job.arguments.recording
    if (name is None) != (action == "list"):
        wanted = "takes no name" if action == "list" else "needs the name of a recording"
        raise UserError(f"{action} {wanted}: kip-replay recordings --help shows examples")
    warehouse = job.warehouse(writes=action == "delete", is_there=True)
    stored = recordings.stored_recordings(warehouse, [steps.name for steps in RULES])
    by_name = {recording.name: recording for recording in stored}
    if action == "list":
        say(*_list(stored))
    elif name not in by_name:
        raise UserError(unknown_name(name, [*by_name], job.warehouse_path))
    elif job.arguments.yes or _confirmed(by_name[name]):
        for table in recordings.delete_recording(warehouse, name, TABLES_OF_STEPS):
            say(f"deleted from {table.name}")
    else:
        say("nothing was deleted")
    return Exit.DONE


def _list(stored: Sequence[StoredRecording]) -> list[str]:
    if not stored:
        return ["no recordings"]
    head = ("recording", "kafka", "from (UTC)", "seconds", "nodes", "requests", "rejected")
    rows: list[Sequence[str]] = [(*head, "log files", "table files", "replayed")]
    for recording in stored:
        logs, size = recording.logs, recording.size
        kafka = " ".join(recording.kafka_versions) or "?"
        counts = f"{len(logs.node_ids)}", f"{logs.requests:,}", f"{logs.rejected_share:.2%}"
        files = (f"{part.files}, {size_text(part.bytes)}" for part in (logs, size))
        replayed = " ".join(recording.rules) or "none"
        first, last = logs.first_at, logs.last_at
        span = _time(first), f"{(last - first).total_seconds() if first and last else 0:.0f}"
        rows.append((recording.name, kafka, *span, *counts, *files, replayed))
    return in_columns(rows, right={3, 4, 5, 6})


def _confirmed(recording: StoredRecording) -> bool:
    if not sys.stdin.isatty():
        raise UserError("there is no terminal to confirm the deletion: add --yes")
    what = f"{recording.name} ({recording.size.rows:,} rows in {len(recording.sizes)} tables)"
    return input(visible(f"delete {what}? [y/N] ")).strip().lower() in ("y", "yes")


def _time(at: datetime | None) -> str:
    return f"{at:%F %T}" if at else "?"


main = command(PARSER, work, __name__)
