"""Defines the options that all jobs take, and help that shows how."""

import argparse
import difflib
import os
import re
import shutil
import textwrap
from collections.abc import Callable
from typing import NoReturn

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rule_files import rule_pages
from kip_replay.replay.records import Advice

#: May name the warehouse once for all commands.
WAREHOUSE_VARIABLE = "KIP_REPLAY_WAREHOUSE"
#: What ``--fail-on`` takes besides advice. ``MEASURED``: metrics and variants of latency_summary.
SELF_CHECKS = "self-checks"
THRESHOLD = re.compile(r"(\w+)_((?:p50|p90|p99|max)_ms) *([<>]=? *\d+(?:\.\d+)?)")
MEASURED = {n: it for page in rule_pages().values() for n, it in page.get("thresholds", {}).items()}
_CONDITIONS = (
    f"the advice on a rule ({', '.join(map(repr, map(str, Advice)))}), a self-check outside of its "
    f"tolerance ({SELF_CHECKS}), or a figure that is beyond a threshold or not known, such as "
    f"'produce_p99_ms > 100' (p50, p90, p99 or max of {', '.join(sorted(MEASURED))})"
)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Paragraphs as wide as the terminal; lines that are indented, such as examples, stay."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        # A command such as kip-replay stays whole.
        filled = textwrap.TextWrapper(
            width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
        return "\n\n".join(
            paragraph if paragraph.splitlines()[-1].startswith(" ") else filled.fill(paragraph)
            for paragraph in text.split("\n\n")
        )


def _help(prog: str) -> argparse.HelpFormatter:
    return _Help(prog, width=min(shutil.get_terminal_size().columns - 2, 100))


def _condition(text: str) -> str:
    match = THRESHOLD.fullmatch(text)
    if text in (*Advice, SELF_CHECKS) or (match and match[1] in MEASURED):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of these: {_CONDITIONS}")


class JobParser(argparse.ArgumentParser):
    """Help keeps the examples' lines; an error is one sentence and status 2.

    ``takes``: methods for what it shares with other jobs, in the order of its help. A job that
    ``is_temporary`` works in a new folder unless one is named.
    """

    def __init__(
        self,
        name: str,
        description: str,
        examples: str,
        *takes: Callable[["JobParser"], None],
        is_temporary: bool = False,
        has_warehouse: bool = True,
    ) -> None:
        super().__init__(
            prog=f"kip-replay {name}",
            description=description,
            epilog=f"examples:\n{examples}\n\n{_EXIT_STATUSES}",
            formatter_class=_help,
            allow_abbrev=False,
        )
        self.name = name
        if not has_warehouse:
            self.set_defaults(warehouse="", conf=None, set=[])
            return
        default = "a new temporary one" if is_temporary else f"{WAREHOUSE_VARIABLE}, or warehouse"
        self.add_argument(
            "--warehouse",
            default="" if is_temporary else os.environ.get(WAREHOUSE_VARIABLE) or "warehouse",
            metavar="DIR",
            help=f"folder of the Delta tables (default: {default})",
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
        for add in takes:
            add(self)

    def with_recordings(self) -> None:
        self.add_argument(
            "recordings",
            nargs="*",
            metavar="RECORDING",
            help="folder with a recording.json; - for a log on standard input",
        )
        self.add_argument(
            "--allow-outside",
            action="store_true",
            help="let a recording.json name logs outside of its folder, or link to them",
        )
        self.add_argument(
            "--from",
            dest="since",
            metavar="TIME",
            help="read only requests completed at TIME or later, as if the log began there: "
            "2026-11-20T20:30 in the recording's zone, or 2026-11-20T19:30Z",
        )
        self.add_argument("--until", metavar="TIME", help="read only requests before TIME")
        group = self.add_argument_group(
            "instead of a manifest, or to override it", "for one recording at a time"
        )
        group.add_argument(
            "--node",
            action="append",
            default=[],
            metavar="ID=PATH",
            help="log of a node: file, glob, folder, archive, or - (standard input); once per node",
        )
        group.add_argument("--name", help="name of the recording in every table")
        group.add_argument("--timezone", metavar="ZONE", help="IANA zone of the stamps, e.g. UTC")
        group.add_argument("--kafka-version", metavar="X.Y.Z", help="version of the brokers")
        group.add_argument("--voters", metavar="ID,ID,...", help="node ids of the quorum's voters")

    def with_names(self) -> None:
        self.add_argument(
            "recordings",
            nargs="*",
            metavar="RECORDING",
            help="name of a recording in the warehouse, or its folder (default: all there are)",
        )

    def with_engine(self) -> None:
        self.add_argument(
            "--engine",
            choices=("auto", "local", "spark"),
            default="auto",
            help="local: this machine alone, without Java; spark: Spark, for logs of any size; "
            "auto (the default): spark under spark-submit, with a master that PYSPARK_SUBMIT_ARGS "
            "names, or for large logs, else local",
        )

    def with_catalog(self) -> None:
        self.add_argument(
            "--catalog",
            metavar="NAME.SCHEMA",
            help="schema of Spark's catalog in which to register tables and views for other SQL "
            "engines (SCHEMA alone: in the default catalog); as a setting: spark.catalog",
        )

    def with_fail_on(self) -> None:
        self.add_argument(
            "--fail-on",
            metavar="CONDITION",
            action="append",
            default=[],
            type=_condition,
            help=f"end with status 4 if a recording has {_CONDITIONS}; may be given repeatedly",
        )

    def with_progress(self) -> None:
        self.add_argument("--quiet", action="store_true", help="print warnings and results only")

    def with_increments(self, of_replay: bool = True) -> None:
        growing = self.add_argument_group("recordings that grow")
        either = growing.add_mutually_exclusive_group()
        either.add_argument(
            "--growing",
            action="store_true",
            help="the logs will grow: leave an incomplete last line for later, replay as far as "
            "the logs are complete, write only rows that no later line can change, and keep the "
            "state for the next run",
        )
        either.add_argument(
            "--final",
            action="store_true",
            help="the logs are complete (the default): read and replay them to their end",
        )
        if of_replay:
            growing.add_argument(
                "--rebuild",
                action="store_true",
                help="delete everything made from the tables of the logs, and make it again",
            )

    def error(self, message: str) -> NoReturn:
        """Argparse calls this."""
        wrong = next((word for word in message.split() if word.startswith("--")), "")
        near = difflib.get_close_matches(wrong, self._option_string_actions, n=1)
        meant = f": is {near[0]} meant?" if near and "unrecognized" in message else ""
        raise UserError(f"{message}{meant} ({self.prog} --help shows examples)")


_EXIT_STATUSES = """exit status:
  0  done
  1  failed
  2  wrong usage, or a recording that cannot be read
  3  done, but a critical quality check failed or too many lines were rejected
  4  done, but a --fail-on condition is true"""
