"""Keeps a warehouse small and quick: drops old recordings, puts small files together, vacuums."""

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain

from deltalake.exceptions import CommitFailedError

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say, size_text
from kip_replay.jobs._steps import READ_WHAT_IS_NEW, TABLES_OF_STEPS
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse.maintenance import (
    SAFE_RETENTION_HOURS,
    optimize,
    sizes,
    total,
    vacuum,
)
from kip_replay.pipelines.warehouse.recordings import (
    delete_recording,
    ingested_logs,
    ingested_recordings,
)
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES, Lineage

PARSER = JobParser(
    "maintain",
    "Keeps a warehouse small and quick. It is safe while jobs run, and a second run finds nothing "
    "to do.\n\n"
    "In this order: with --keep-days, drops recordings whose last line is older; puts small files "
    "together; deletes files that no version of the last hours needs.\n\n"
    "A recording is kept or dropped as a whole: if one never ends, give it a new name each month.",
    """  kip-replay maintain
  kip-replay maintain --keep-days 90 --dry-run
  kip-replay maintain --retention-hours 0 --allow-short-retention   (nobody else at work)""",
)
_add = PARSER.add_argument
_add("--keep-days", type=float, metavar="N", help="drop recordings that ended longer ago")
_keep = "keep the files of all versions of the last H hours (default: %(default)s)"
_add("--retention-hours", type=int, default=SAFE_RETENTION_HOURS, metavar="H", help=_keep)
_short = f"let H be less than {SAFE_RETENTION_HOURS}: readers and writers at work may fail"
_add("--allow-short-retention", action="store_true", help=_short)
_add("--dry-run", action="store_true", help="only say what would be dropped and deleted")


def work(job: Job) -> Exit:
    arguments = job.arguments
    if arguments.keep_days is not None and arguments.keep_days <= 0:
        raise UserError(f"--keep-days {arguments.keep_days}: write a number above 0")
    if arguments.retention_hours < 0:
        raise UserError(f"--retention-hours {arguments.retention_hours}: write 0 or more")
    if arguments.retention_hours < SAFE_RETENTION_HOURS and not arguments.allow_short_retention:
        raise UserError(
            f"--retention-hours {arguments.retention_hours} is less than the safe "
            f"{SAFE_RETENTION_HOURS}: files that running jobs need could be deleted; where none "
            "runs, add --allow-short-retention"
        )
    is_dry = arguments.dry_run
    warehouse = job.warehouse(writes=not is_dry, is_there=True)
    before = _size(warehouse)
    if arguments.keep_days is not None:
        until = datetime.now(UTC) - timedelta(days=arguments.keep_days)
        for name, logs in ingested_logs(warehouse, ingested_recordings(warehouse)).items():
            if logs.last_at is not None and logs.last_at < until:
                if not is_dry:
                    delete_recording(warehouse, name, TABLES_OF_STEPS)
                why = f"it ended more than {arguments.keep_days:g} days ago"
                say(f"would drop {name}" if is_dry else f"dropped {name}: {why}")
    if not is_dry:
        _optimize(warehouse)
    hours = arguments.retention_hours
    files = sum(len(vacuum(warehouse, t, hours, is_dry)) for t in TABLES.values())
    what = "would delete" if is_dry else "vacuum: deleted"
    say(f"{what} {files} files older than {hours} hours")
    say(f"tables: {before}" if is_dry else f"tables: {before}, now {_size(warehouse)}")
    return Exit.DONE


def _optimize(warehouse: Warehouse) -> None:
    before = after = 0
    for table in TABLES.values():
        try:
            files = optimize(warehouse, table, partial(_is_complete, warehouse, table))
        except CommitFailedError:
            say(f"optimize: another job writes to {table.name}, left for the next time")
        else:
            before, after = before + files[0], after + files[1]
    say(f"optimize: {before} small files put together into {after}")


def _is_complete(warehouse: Warehouse, table: Table, recording: str) -> bool:
    """Returns whether a table was written to the end, and later steps saw all that is new."""
    order = [*TABLES_OF_STEPS]
    step = next((step for step in order if table in TABLES_OF_STEPS[step]), None)
    rows = warehouse.rows(Lineage, [recording]).to_pylist()
    ended = {row["step"]: row["committed_at"] for row in rows}
    if step is None or step not in ended:
        return step is None
    later = READ_WHAT_IS_NEW & ended.keys() & {*order[order.index(step) + 1 :]}
    return all(ended[other] >= ended[step] for other in later)


def _size(warehouse: Warehouse) -> str:
    size = total(chain(*(sizes(warehouse, table).values() for table in TABLES.values())))
    return f"{size.files} files, {size_text(size.bytes)}"


main = command(PARSER, work, __name__)
