"""Parses arguments, reads the configuration and ends a job, for all jobs.

A job is a parser and a function of ``Job`` that returns an ``Exit``. Whatever goes wrong is one
sentence on stderr after ``error:``. What was not foreseen also leaves its traceback in a file.

The configuration is TOML: conf/defaults.toml, each rule's and conf/decisions.toml, over them the
file of ``--conf``, over it each ``--set``. Only keys that the defaults have are taken, so that a
misspelt key is not silently nothing.
"""

import argparse
import difflib
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from kip_replay.jobs._failures import causes, is_disk_full, keep_traceback, known_cause, no_space
from kip_replay.jobs._parser import JobParser as JobParser
from kip_replay.pipelines import progress, ready_process
from kip_replay.pipelines.errors import IngestError, SparkStartError, UserError, WriteConflictError
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.recording import (
    Recording,
    RecordingOptions,
    load_recordings,
    voters_from_text,
)
from kip_replay.pipelines.printable import visible
from kip_replay.pipelines.rule_files import conf_dir, read_toml, rule_files
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.storage import Place, is_uri, normal, place_of, reason_of
from kip_replay.pipelines.warehouse.recordings import ingested_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse, require_named, require_writable

Config = dict[str, dict[str, Any]]


def read_config(file: str | None, settings: Sequence[str]) -> Config:
    """Defaults, then the file, then ``section.key=value`` each. Raises UserError."""
    config = read_toml(conf_dir() / "defaults.toml", Config)
    config |= {rule: {**stated.defaults} for rule, stated in rule_files().items()}
    for section, values in read_toml(conf_dir() / "decisions.toml", Config).items():
        config[section] = config.get(section, {}) | values
    if file is not None:
        for section, values in read_toml(Path(file), dict[str, Any]).items():
            if not isinstance(values, Mapping):
                raise UserError(f"{section!r} in {file} stands outside of a [section]: move it")
            for key, value in values.items():
                _set(config, section, key, value, file)
    for setting in settings:
        name, equals, text = setting.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot):
            raise UserError(
                f"--set {setting!r} is not SECTION.KEY=VALUE: write for instance "
                "--set ingest.max_rejected_share=0.05"
            )
        _set(config, section, key, _toml_value(text.strip()), f"--set {setting!r}")
    return config


def _set(config: Config, section: str, key: str, value: object, source: str) -> None:
    if key not in config.get(section, {}):
        known = [f"{name}.{k}" for name, keys in config.items() for k in keys]
        raise UserError(
            f"{source}: there is no setting {section}.{key} (CHANGELOG.md has those that were "
            f"removed): there are {', '.join(sorted(known))}"
        )
    kind = type(config[section][key])
    config[section][key] = value
    config[section][key] = checked(config, f"{section}.{key}", kind, f"{source}: ")


def checked(config: Config, name: str, kind: Any, source: str = "") -> Any:
    """The value of ``section.key``, of a kind that msgspec knows. Raises UserError."""
    section, key = name.split(".")
    value = config[section][key]
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        example = read_config(None, [])[section][key]
        wanted = f"write a value such as {example!r} ({error})"
        raise UserError(f"{source}{name} is {value!r}: {wanted}") from None


def _toml_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a text without quotes


def say(*lines: object) -> None:
    """Progress, a line at a time, also where stdout is a pipe."""
    for line in lines:
        with progress.aside():
            print(visible(str(line)), flush=True)


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    FELL_SHORT = 3
    """Done, but a critical quality check failed or too many lines were rejected."""
    UNWELCOME = 4
    """Done, but something that ``--fail-on`` names is so."""


@dataclass(frozen=True)
class Job:
    """Holds the command line of a job; ``words`` as it was written."""

    name: str
    arguments: argparse.Namespace
    config: Config
    words: Sequence[str] = ()
    #: What is wrong with each of several recordings that was passed over.
    passed_over: list[str] = field(default_factory=list)

    @property
    def warehouse_path(self) -> str:
        """As it was given; a URI in the form that all here take. Raises UserError."""
        return normal(str(self.arguments.warehouse))

    def tell(self, line: str) -> None:
        """Says what a step does; with ``--quiet`` only its warnings and the lines that it read."""
        is_result = line.startswith("warning: ") or ": lines read " in line
        if is_result or not vars(self.arguments).get("quiet"):
            say(line)

    def options(self) -> RecordingOptions:
        """Reads the options about a recording. Raises UserError."""
        stated = vars(self.arguments)
        voters = voters_from_text(stated["voters"]) if stated["voters"] else None
        as_given = ("name", "timezone", "kafka_version", "allow_outside", "since", "until")
        more = {name: stated[name] for name in as_given}
        return RecordingOptions(nodes=tuple(stated["node"]), voters=voters, **more)

    def recordings(self, but: Sequence[Place] = ()) -> list[Recording]:
        """The recordings named, with the options for one applied. Raises UserError."""
        paths = [path for path in self.arguments.recordings if place_of(path) not in but]
        return load_recordings(paths, self.options(), self.of_each)

    def of_each(self, work: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
        """Results of each of several recordings that can be read. Raises UserError if none can."""
        results = []
        for part in parts:
            try:
                results.append(work(part))
            except UserError as error:
                self.passed_over.append(str(error))
                if len(self.passed_over) >= len(self.arguments.recordings):
                    raise
                _failed(str(error), Exit.WRONG_USAGE)
        return results

    def with_stdin(self) -> "Job":
        """Replaces ``-`` by a folder or a file that holds standard input."""
        arguments = argparse.Namespace(**vars(self.arguments))
        nodes = any(node.endswith("=-") for node in arguments.node)
        if "-" not in arguments.recordings and not nodes:
            return self
        file = _stdin_file()
        file.parent.mkdir(exist_ok=True)
        with file.open("wb") as spooled:
            shutil.copyfileobj(sys.stdin.buffer, spooled)
        arguments.recordings = [str(file.parent) if r == "-" else r for r in arguments.recordings]
        arguments.node = [f"{n[:-1]}{file}" if n.endswith("=-") else n for n in arguments.node]
        return replace(self, arguments=arguments)

    def is_stdin(self, text: str) -> bool:
        """Returns whether an argument stands for standard input."""
        return "stdin" in text and str(_stdin_file().parent) in text

    def named(self, wanted: Sequence[str], writes: bool = True) -> dict[str, Recording | None]:
        """Recordings in the warehouse, by name; with its manifest one that is given by its folder.

        Without any given, all there are. Raises UserError for one that is not there.
        """
        there = ingested_recordings(self.warehouse(writes, is_there=True))
        recordings: dict[str, Recording | None] = dict.fromkeys([] if wanted else there)
        for text in wanted:
            if (place_of(text) / MANIFEST).is_file() or place_of(text).name == MANIFEST:
                recording = load_recordings([text])[0]
                recordings[recording.name] = recording
            else:
                recordings[text] = None
        for name in recordings:
            if name not in there:
                raise UserError(unknown_name(name, there, self.warehouse_path))
        return recordings

    def warehouse(self, writes: bool = True, is_there: bool = False) -> Warehouse:
        """The warehouse; unless ``is_there``, the first write may make it. Raises UserError."""
        path = self.warehouse_path
        (require_writable if writes else require_named)(path)
        if is_there and not any(place_of(path).glob("*/_delta_log")):
            raise UserError(
                f"No warehouse in {path if is_uri(path) or path.startswith('/') else './' + path}: "
                "name one with --warehouse, or make it with `kip-replay run`"
            )
        return Warehouse(path, self._table_properties())

    def _table_properties(self) -> dict[str, str]:
        has_feed = self.config["delta"]["enableChangeDataFeed"]
        return {"delta.enableChangeDataFeed": "true"} if has_feed else {}


def _stdin_file() -> Path:
    return run_folder() / "stdin" / "stdin.log"


def unknown_name(name: str, there: Sequence[str], warehouse: str) -> str:
    """The sentence about a name of no recording: those there are, the closest first."""
    if not there:
        return f"there is no recording in the warehouse {warehouse}: kip-replay run reads some"
    closest = difflib.get_close_matches(name, there, n=len(there), cutoff=0.0)
    return (
        f"there is no recording {name!r} in the warehouse {warehouse}, there are: "
        f"{', '.join(closest)}; kip-replay run on its folder reads another"
    )


def run(parser: JobParser, work: Callable[[Job], Exit], argv: Sequence[str] | None = None) -> int:
    """Runs a job and returns its exit status; raises SystemExit for --help only."""
    warehouse = tempfile.gettempdir()
    try:
        arguments = parser.parse_args(argv)
        warehouse = arguments.warehouse or warehouse
        config = read_config(arguments.conf, arguments.set)
        is_quiet = getattr(arguments, "quiet", True)
        with nullcontext() if is_quiet else progress.displayed(sys.stderr):
            words = sys.argv[1:] if argv is None else argv
            job = Job(parser.name, arguments, config, words)
            status = work(job.with_stdin() if "node" in arguments else job)
            return int(Exit.WRONG_USAGE if job.passed_over else status)
    except UserError as error:
        if is_disk_full(error):  # a task could not say more
            return _failed(no_space(warehouse), Exit.FAILED)
        return _failed(str(error), Exit.WRONG_USAGE)
    except (IngestError, WriteConflictError, SparkStartError) as error:
        return _failed(str(error), Exit.FAILED)
    except BrokenPipeError:  # as `head` does when it has enough: no mistake, but not done either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except KeyboardInterrupt:
        return _failed("interrupted; the same command completes what is missing", Exit.FAILED)
    except Exception as error:
        if is_uri(f"{warehouse} {argv or sys.argv}") and (reason := reason_of(*causes(error))):
            return _failed(f"a store of objects cannot be used, {reason}", Exit.WRONG_USAGE)
        if sentence := known_cause(error, warehouse):
            return _failed(sentence, Exit.FAILED)
        where = keep_traceback(parser.name, warehouse)
        what = next((line for line in str(error).splitlines() if line.strip()), "no message")
        sentence = f"{parser.name} failed: {type(error).__name__}: {what.strip()}"
        return _failed(f"{sentence}; the traceback is in {where}", Exit.FAILED)


def command(
    parser: JobParser, work: Callable[[Job], Exit], module: str
) -> Callable[[Sequence[str] | None], int]:
    """The ``main`` of a job's module; where the module is the program, runs it and exits."""
    if module == "__main__":
        ready_process()
        sys.exit(run(parser, work))
    return partial(run, parser, work)


def _failed(sentence: str, status: Exit) -> int:
    print(f"error: {visible(sentence)}", file=sys.stderr, flush=True)
    return int(status)


def in_columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows as lines, each column as wide as its widest text; those in ``right`` end flush."""
    columns = []
    for place, texts in enumerate(zip(*rows, strict=True)):
        width, aligned = max(map(len, texts)), ">" if place in right else "<"
        columns.append([f"{text:{aligned}{width}}" for text in texts])
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def size_text(size_bytes: int) -> str:
    """Bytes in the largest unit of 1,000 that leaves a number above 1: 12.3 MB."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} bytes"
