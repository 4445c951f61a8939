"""What all jobs share: arguments, configuration, and how a job ends.

A job is a parser and a function of ``Job`` that returns an ``Exit``. Whatever goes wrong is one
sentence on stderr after ``error:``. What was not foreseen also leaves its traceback in a file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import NoReturn

from pyspark.sql import SparkSession

from kip_replay.jobs._config import Config, read_config
from kip_replay.pipelines.analysis.printable import visible
from kip_replay.pipelines.errors import IngestError, UserError, WriteConflictError
from kip_replay.pipelines.ingest.recording import (
    Recording,
    RecordingOptions,
    load_recordings,
    voters_from_text,
)
from kip_replay.pipelines.session import SparkStartError, spark_session
from kip_replay.pipelines.warehouse.damage import DamagedTableError, require_readable, require_whole
from kip_replay.pipelines.warehouse.disk_space import is_disk_full, is_memory_full
from kip_replay.pipelines.warehouse.place import require_named, require_writable
from kip_replay.pipelines.warehouse.tables import Warehouse


def say(line: object) -> None:
    """Progress, a line at a time, also where stdout is a pipe."""
    print(visible(str(line)), flush=True)


class Exit(IntEnum):
    """Exit status of a job."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    FELL_SHORT = 3
    """Done, but a critical quality check failed or too many lines were rejected."""


@dataclass(frozen=True)
class Job:
    """What the command line of a job says."""

    name: str
    arguments: argparse.Namespace
    config: Config

    @property
    def warehouse_path(self) -> str:
        """``--warehouse`` as given."""
        return str(self.arguments.warehouse)

    def recordings(self) -> list[Recording]:
        """The recordings named, with the options for one applied. Raises UserError."""
        given = self.arguments
        options = RecordingOptions(
            nodes=tuple(given.node),
            name=given.name,
            timezone=given.timezone,
            kafka_version=given.kafka_version,
            voters=voters_from_text(given.voters) if given.voters else None,
            allow_outside=given.allow_outside,
        )
        return load_recordings(given.recordings, options)

    def spark(self) -> SparkSession:
        """The Spark session. Seconds: ask after everything that can fail without it."""
        return spark_session(f"kafka protocol replay: {self.name}", warehouse=self.warehouse_path)

    def warehouse(self, writes: bool = True) -> Warehouse:
        """The warehouse, which may not be there yet. Raises UserError, DamagedTableError."""
        (require_writable if writes else require_named)(self.warehouse_path)
        require_whole(self.warehouse_path)
        return Warehouse(self.warehouse_path)

    def existing_warehouse_path(self, writes: bool = False) -> str:
        """Absolute path of a warehouse that is there, without Spark.

        Raises UserError, DamagedTableError.
        """
        path = self.warehouse_path
        (require_writable if writes else require_named)(path)
        if "://" in path:
            return path.rstrip("/")
        if not any(Path(path).glob("*/_delta_log")):
            raise UserError(
                f"there is no warehouse at {path}: name one with --warehouse, or make it with "
                "`kip-replay run`"
            )
        require_whole(path)
        return str(Path(path).absolute())


class JobParser(argparse.ArgumentParser):
    """Help keeps the examples' lines; an error is one sentence and status 2."""

    def __init__(self, name: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"kip-replay {name}",
            description=description,
            epilog=f"examples:\n{examples}\n\n{_EXIT_STATUSES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.name = name
        self.add_argument(
            "--warehouse", default="warehouse", metavar="DIR", help="folder of the Delta tables"
        )
        self.add_argument(
            "--conf", metavar="FILE", help="TOML file, over conf/defaults.toml (see there for keys)"
        )
        self.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="one setting, over --conf: --set ingest.max_rejected_share=0.05",
        )

    def with_recordings(self) -> JobParser:
        """The same parser, asking for recordings."""
        self.add_argument(
            "recordings", nargs="*", metavar="RECORDING", help="folder with a recording.json"
        )
        self.add_argument(
            "--allow-outside",
            action="store_true",
            help="let a recording.json name logs outside of its folder, or link to them",
        )
        one = self.add_argument_group(
            "a recording without a manifest, or over it", "for one recording at a time"
        )
        one.add_argument(
            "--node",
            action="append",
            default=[],
            metavar="ID=PATH",
            help="log of a node: file, glob or folder; once per node",
        )
        one.add_argument("--name", help="name of the recording in every table")
        one.add_argument("--timezone", metavar="ZONE", help="IANA zone of the stamps, e.g. UTC")
        one.add_argument("--kafka-version", metavar="X.Y.Z", help="version that was recorded")
        one.add_argument("--voters", metavar="ID,ID,...", help="node ids of the quorum's voters")
        return self

    def with_increments(self, of_replay: bool = True) -> JobParser:
        """The same parser, for recordings that may go on growing."""
        growing = self.add_argument_group("recordings that grow")
        either = growing.add_mutually_exclusive_group()
        either.add_argument(
            "--growing",
            action="store_true",
            help="more of these logs will come: half a last line is left for later; replay as far "
            "as the logs are complete, write only rows that nothing to come can change, and keep "
            "the state for the next run",
        )
        either.add_argument(
            "--final",
            action="store_true",
            help="the logs are all there (the default): read and replay to their end",
        )
        if of_replay:
            growing.add_argument(
                "--rebuild",
                action="store_true",
                help="replay everything anew from the typed tables, whatever was replayed before",
            )
        return self

    def error(self, message: str) -> NoReturn:
        """Argparse calls this."""
        raise UserError(f"{message} ({self.prog} --help shows examples)")


_EXIT_STATUSES = """exit status:
  0  done
  1  failed
  2  wrong usage, or a recording that cannot be read
  3  done, but a critical quality check failed or too many lines were rejected"""


def run(parser: JobParser, work: Callable[[Job], Exit], argv: Sequence[str] | None = None) -> int:
    """Runs a job and returns its exit status; raises SystemExit for --help only."""
    warehouse = tempfile.gettempdir()
    try:
        arguments = parser.parse_args(argv)
        warehouse = arguments.warehouse
        config = read_config(arguments.conf, arguments.set)
        return int(work(Job(parser.name, arguments, config)))
    except UserError as error:
        if is_disk_full(error):  # a task could not say more
            return _failed(_no_space(warehouse), Exit.FAILED)
        return _failed(str(error), Exit.WRONG_USAGE)
    except (IngestError, WriteConflictError, DamagedTableError, SparkStartError) as error:
        return _failed(str(error), Exit.FAILED)
    except KeyboardInterrupt:
        return _failed("interrupted; the same command completes what is missing", Exit.FAILED)
    except Exception as error:
        if sentence := _known_cause(error, warehouse):
            return _failed(sentence, Exit.FAILED)
        where = _keep_traceback(parser.name, warehouse)
        what = next((line for line in str(error).splitlines() if line.strip()), "no message")
        sentence = f"{parser.name} failed: {type(error).__name__}: {what.strip()}"
        return _failed(f"{sentence}; the traceback is in {where}", Exit.FAILED)


def command(
    parser: JobParser, work: Callable[[Job], Exit], module: str
) -> Callable[[Sequence[str] | None], int]:
    """The ``main`` of a job's module; where the module is the program, runs it and exits."""
    if module == "__main__":
        sys.exit(run(parser, work))
    return partial(run, parser, work)


def _failed(sentence: str, status: Exit) -> int:
    print(f"error: {visible(sentence)}", file=sys.stderr, flush=True)
    return int(status)


def _no_space(warehouse: str) -> str:
    return (
        f"there is no space left on the disk of the warehouse {warehouse}, or on that of "
        f"temporary files ({tempfile.gettempdir()}): make some and run the same command again, "
        "which completes what is missing"
    )


def _known_cause(error: Exception, warehouse: str) -> str | None:
    """What is behind an error in other words: a disk, memory, rights, a damaged file."""
    if is_disk_full(error):
        return _no_space(warehouse)
    if is_memory_full(error):
        return (
            "there is not enough memory, or the system has ended a process for it: run the same "
            "command again with more of it free (spark.driver.memory is the share of Java), which "
            "completes what is missing"
        )
    if isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError):
        return f"{error.filename} cannot be used ({error.strerror}): correct its rights or its name"
    try:
        require_readable(warehouse)
    except DamagedTableError as damage:
        return str(damage)
    return None


def _keep_traceback(name: str, warehouse: str) -> Path:
    """Writes the traceback under the warehouse, or where temporary files go if that fails."""
    text = traceback.format_exc()
    file_name = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.log"
    for folder in (Path(warehouse) / "_logs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file_name).write_text(text, encoding="utf-8")
            return folder / file_name
        except OSError:
            continue
    for line in text.splitlines():
        print(visible(line), file=sys.stderr)
    return Path("stderr")
