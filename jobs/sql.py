"""SQL on a warehouse: a statement, or those of a page.

Rows go to stdout and nothing else does, so that csv and json can be piped.
"""

import csv
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from kip_replay.jobs._cli import Exit, Job, JobParser, command, in_columns
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import as_configured, read_views
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.printable import as_text, csv_text, json_object, visible

PARSER = JobParser(
    "sql",
    "Runs a statement in DuckDB's SQL and prints its rows. It can only read. The statement names "
    "tables and views of the warehouse by plain name: SHOW TABLES lists them, DESCRIBE says what "
    "the columns of one are.\n\n"
    "Tables of outcomes and sums also have rows for other values of a setting (parameter). Their "
    "views named ..._as_configured leave these rows out, as nearly all other views do.\n\n"
    "csv begins with a line of names, json has one object a line; times are ISO 8601 in UTC.",
    """  kip-replay sql "SELECT recording, count(*) FROM requests GROUP BY ALL"
  kip-replay sql --format csv "SELECT * FROM steady_lag" > lag.csv
  kip-replay sql "DESCRIBE produce_ack_outcomes_as_configured\"""",
)
_add = PARSER.add_argument
_add("statement", nargs="?", metavar="SQL", help="the statement")
_add("--format", choices=("table", "csv", "json"), default="table", help="default: %(default)s")
_add("--rows", type=int, default=1000, metavar="N", help="rows of a table at most (%(default)s)")
_add("--seconds", type=int, default=600, metavar="N", help="time limit (default: %(default)s)")
_add("--answer", metavar="PAGE", help="write the answers into a page of queries (docs/sql.md)")

_QUERY = re.compile(r"```sql\n(?P<query>.*?)\n```\n(\n```text\n(.*?\n)??```\n)?", re.DOTALL)


def work(job: Job) -> Exit:
    arguments = job.arguments
    if arguments.statement is None and arguments.answer is None:
        raise UserError('give a statement: kip-replay sql "SHOW TABLES"')
    for option in ("rows", "seconds"):
        if (value := getattr(arguments, option)) < 1:
            raise UserError(f"--{option} {value}: write 1 or more")
    views = read_views(job.config["findings"])
    catalog = Catalog(job.warehouse(False, is_there=True).path, views, arguments.seconds)
    printer = Printer(catalog, arguments.format, arguments.rows)
    try:
        if arguments.answer is not None:
            _answer(Path(arguments.answer), printer)
        else:
            printer.run(arguments.statement)
        sys.stdout.flush()
    except BrokenPipeError:  # as `head` does when it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.DONE


def _answer(page: Path, printer: "Printer") -> None:
    try:
        text = page.read_text(encoding="utf-8")
        page.write_text(with_answers(text, printer.table), encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the page {page} cannot be used ({error}): name another") from None


def with_answers(page: str, answer: Callable[[str], Sequence[str]]) -> str:
    """The page with a block ``text`` after each block ``sql``: what ``answer`` gives for it."""

    def with_answer(match: re.Match[str]) -> str:
        lines = "\n".join(answer(match["query"]))
        return f"```sql\n{match['query']}\n```\n\n```text\n{lines}\n```\n"

    return _QUERY.sub(with_answer, page)


@dataclass(frozen=True)
class Printer:
    """Runs statements on a catalog and prints their rows: of a table at most ``rows_max``."""

    catalog: Catalog
    output: str
    rows_max: int

    def run(self, statement: str) -> None:
        """Prints what a statement returns. Raises UserError."""
        self._note_sweeps(statement)
        if self.output == "table":
            print("\n".join(self.table(statement)))
            return
        schema, rows = self.catalog.query(statement)
        if self.output == "json":
            for row in rows:
                print(json_object(schema.names, row))
        else:
            is_seen = sys.stdout.isatty()
            writer = csv.writer(sys.stdout, lineterminator="\n")
            for row in chain([schema.names], rows):
                cells = map(csv_text, row)
                writer.writerow(map(visible, cells) if is_seen else cells)

    def _note_sweeps(self, statement: str) -> None:
        """Warns where rows of several settings would be mixed up."""
        words = {*re.findall(r"\w+", statement.lower())}
        if words & {"parameter", "describe"}:
            return
        for table in sorted(words & self.catalog.comments.keys()):
            if (view := as_configured(table)) in self.catalog.comments:
                why = "also has rows for other values of settings (parameter)"
                print(f"note: {table} {why}: {view} leaves them out", file=sys.stderr)

    def table(self, statement: str) -> list[str]:
        """Runs a statement and aligns its result in columns. Raises UserError."""
        schema, rows = self.catalog.query(statement)
        texts = [[as_text(value) for value in row] for row in islice(rows, self.rows_max + 1)]
        if len(texts) > self.rows_max:
            print(f"more than {self.rows_max} rows: --rows shows more", file=sys.stderr)
        lines = [[visible(text) for text in row] for row in [schema.names, *texts]]
        is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        right = [at for at, kind in enumerate(schema.types) if any(is_(kind) for is_ in is_number)]
        return in_columns(lines[: self.rows_max + 1], right)


main = command(PARSER, work, __name__)
