"""Keeps a warehouse small and quick: drops old recordings, puts small files together, vacuums."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import TABLES_OF_STEPS
from kip_replay.jobs._text import size_text
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse import maintenance
from kip_replay.pipelines.warehouse.maintenance import SAFE_RETENTION_HOURS, Size, sizes, vacuum
from kip_replay.pipelines.warehouse.recordings import delete_recording, stored_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

PARSER = JobParser(
    "maintain",
    "Keeps a warehouse small and quick; safe beside running jobs, and a second time there is "
    "nothing to do.\n\n"
    "In this order: with --keep-days, drops recordings whose last line is older; puts small files "
    "together, sorted by what queries filter by; deletes files that no version of the last hours "
    "needs.\n\n"
    "A recording is kept or dropped as a whole: give one that goes on for ever a new name each "
    "month.",
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
_add("--dry-run", action="store_true", help="only say what would be done")


def work(job: Job) -> Exit:
    given = job.arguments
    if given.keep_days is not None and given.keep_days <= 0:
        raise UserError(f"--keep-days {given.keep_days}: write a number above 0")
    if given.retention_hours < 0:
        raise UserError(f"--retention-hours {given.retention_hours}: write 0 or more")
    if given.retention_hours < SAFE_RETENTION_HOURS and not given.allow_short_retention:
        raise UserError(
            f"--retention-hours {given.retention_hours} is less than the safe "
            f"{SAFE_RETENTION_HOURS}: files that running jobs need could be deleted; where none "
            "runs, add --allow-short-retention"
        )
    path = job.existing_warehouse_path(writes=not given.dry_run)
    warehouse = Warehouse(path)
    old = []
    if given.keep_days is not None:
        until = datetime.now(UTC) - timedelta(days=given.keep_days)
        stored = stored_recordings(warehouse)
        old = [one.name for one in stored if one.last_at is not None and one.last_at < until]
    if given.dry_run:
        _say_what_would_be_done(warehouse, old, given.retention_hours)
        return Exit.DONE
    before = _whole(path)
    for name in old:
        delete_recording(warehouse, name, TABLES_OF_STEPS)
        say(f"dropped {name}: it ended more than {given.keep_days:g} days ago")
    _optimize(warehouse)
    deleted = sum(len(vacuum(path, t, given.retention_hours)) for t in TABLES.values())
    say(f"vacuum: deleted {deleted} files older than {given.retention_hours} hours")
    say(f"tables: {_text(before)}, now {_text(_whole(path))}")
    return Exit.DONE


def _optimize(warehouse: Warehouse) -> None:
    done = False
    for table in TABLES.values():
        optimized = maintenance.optimize(warehouse.path, table, _unfinished(warehouse, table))
        if optimized is None:
            continue
        done = True
        if optimized.in_the_way:
            say(f"optimize {table.name}: another job writes to it, left for the next time")
        else:
            say(f"optimize {table.name}: {_text(optimized.before)}, now {_text(optimized.after)}")
    if not done:
        say("optimize: no table has small files to put together")


def _unfinished(warehouse: Warehouse, table: Table) -> set[str]:
    """Recordings whose step that writes the table is at work, or was killed."""
    step = next((step for step, tables in TABLES_OF_STEPS.items() if table in tables), None)
    names = sizes(warehouse.path, table)
    lineage = warehouse.lineage(names)
    return set() if step is None else {name for name in names if (name, step) not in lineage}


def _say_what_would_be_done(warehouse: Warehouse, old: Sequence[str], hours: int) -> None:
    path = warehouse.path
    for name in old:
        say(f"would drop {name}")
    for table in TABLES.values():
        needed = maintenance.needs_optimizing(path, table, _unfinished(warehouse, table))
        if needed:
            say(f"would optimize {table.name}: {', '.join(needed)}")
    files = sum(len(vacuum(path, t, hours, dry_run=True)) for t in TABLES.values())
    say(f"would delete {files} files older than {hours} hours")
    say(f"tables: {_text(_whole(path))}")


def _whole(path: str) -> Size:
    return maintenance.total(
        size for table in TABLES.values() for size in sizes(path, table).values()
    )


def _text(size: Size) -> str:
    return f"{size.files} files, {size_text(size.bytes)}"


main = command(PARSER, work, __name__)
