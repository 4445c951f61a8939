"""Keeps a warehouse small and quick: drops old recordings, puts small files together, vacuums."""

from datetime import UTC, datetime, timedelta
from itertools import chain

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import READ_WHAT_IS_NEW, TABLES_OF_STEPS
from kip_replay.jobs._text import size_text
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse import maintenance
from kip_replay.pipelines.warehouse.maintenance import SAFE_RETENTION_HOURS, Size, sizes, vacuum
from kip_replay.pipelines.warehouse.recordings import delete_recording, stored_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LINEAGE, TABLES

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
    is_dry = given.dry_run
    warehouse = job.warehouse(writes=not is_dry, is_there=True)
    before = _whole(warehouse)
    if given.keep_days is not None:
        until = datetime.now(UTC) - timedelta(days=given.keep_days)
        for one in stored_recordings(warehouse):
            if one.last_at is not None and one.last_at < until:
                if not is_dry:
                    delete_recording(warehouse, one.name, TABLES_OF_STEPS)
                why = f"it ended more than {given.keep_days:g} days ago"
                say(f"would drop {one.name}" if is_dry else f"dropped {one.name}: {why}")
    _optimize(warehouse, is_dry)
    hours = given.retention_hours
    files = sum(len(vacuum(warehouse.path, t, hours, is_dry)) for t in TABLES.values())
    what = "would delete" if is_dry else "vacuum: deleted"
    say(f"{what} {files} files older than {hours} hours")
    say(f"tables: {_text(before)}" + ("" if is_dry else f", now {_text(_whole(warehouse))}"))
    return Exit.DONE


def _optimize(warehouse: Warehouse, is_dry: bool) -> None:
    has_small_files = False
    for table in TABLES.values():
        at_work = _unfinished(warehouse, table)
        if is_dry:
            if needed := maintenance.needs_optimizing(warehouse.path, table, at_work):
                say(f"would optimize {table.name}: {', '.join(needed)}")
        elif done := maintenance.optimize(warehouse.path, table, at_work):
            has_small_files = True
            found = f"{_text(done.before)}, now {_text(done.after)}"
            if done.in_the_way:
                found = "another job writes to it, left for the next time"
            say(f"optimize {table.name}: {found}")
    if not (has_small_files or is_dry):
        say("optimize: no table has small files to put together")


def keep_bounded(warehouse: Warehouse) -> None:
    """Keeps files and commits of tables that a job has written from growing with each run."""
    for table in filter(warehouse.exists, TABLES.values()):
        steps = {step for step, tables in TABLES_OF_STEPS.items() if table in (*tables, LINEAGE)}
        epochs = {key: epoch for key, epoch in warehouse.written.items() if key[0] in steps}
        maintenance.keep_bounded(warehouse, table, epochs)


def _unfinished(warehouse: Warehouse, table: Table) -> set[str]:
    """Recordings whose step that writes the table is at work, was killed, or waits for another."""
    order = [*TABLES_OF_STEPS]
    step = next((step for step in order if table in TABLES_OF_STEPS[step]), None)
    if step is None:
        return set()
    names = sizes(warehouse.path, table)
    rows = warehouse.rows(LINEAGE, names).to_pylist()
    ended = {(row["recording"], row["step"]): row["committed_at"] for row in rows}
    later = READ_WHAT_IS_NEW & {*order[order.index(step) + 1 :]}
    return {
        name
        for name in names
        for at in [ended.get((name, step))]
        if at is None or any(ended.get((name, other), at) < at for other in later)
    }


def _whole(warehouse: Warehouse) -> Size:
    every = (sizes(warehouse.path, table).values() for table in TABLES.values())
    return maintenance.total(chain(*every))


def _text(size: Size) -> str:
    return f"{size.files} files, {size_text(size.bytes)}"


main = command(PARSER, work, __name__)
