"""SQL on a warehouse: one statement, or a shell.

Rows go to stdout and nothing else does, so that csv and json can be piped. Statements only read;
``pipelines.analysis.catalog`` tells how that is made sure of.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from kip_replay.jobs._cli import Exit, Job, JobParser, run
from kip_replay.jobs._text import in_columns
from kip_replay.pipelines.analysis.catalog import Catalog, one_sentence
from kip_replay.pipelines.analysis.printable import json_lines, text_rows
from kip_replay.pipelines.analysis.sql_page import answered
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.errors import UserError

PARSER = JobParser(
    "sql",
    "Spark SQL on the tables and views of a warehouse, by plain name; it only reads. With a "
    "statement, prints its rows. Without one, reads statements that end with ; from the terminal "
    "or a pipe; there `help` tells what else it understands. csv has a line of names first, json "
    "is an object a line; times are ISO 8601 in UTC.",
    """  python -m jobs.sql "SELECT recording, count(*) FROM requests GROUP BY ALL"
  python -m jobs.sql --format csv "SELECT * FROM steady_lag" > lag.csv
  python -m jobs.sql "DESCRIBE produce_ack_outcomes"
  python -m jobs.sql --warehouse /data/warehouse < questions.sql""",
)
PARSER.add_argument("statement", nargs="?", metavar="SQL", help="one statement; without: a shell")
PARSER.add_argument(
    "--format", choices=("table", "csv", "json"), default="table", help="default: %(default)s"
)
PARSER.add_argument(
    "--rows", type=int, default=1000, metavar="N", help="rows of a table at most (default: 1000)"
)
PARSER.add_argument(
    "--answer", metavar="PAGE", help="run the queries of a page (docs/sql.md), write their answers"
)
PARSER.add_argument(
    "--history", metavar="FILE", help="keep what is typed in FILE (without: forgotten at the end)"
)

_NUMBER = re.compile("tinyint|smallint|int|bigint|float|double|decimal")
_HELP = """statements end with ; and may take several lines. Also:
  tables              the tables and views, with what a row of each says
  describe NAME       the columns of one
  format table|csv|json
  help, quit (or Ctrl-D)"""


def work(job: Job) -> Exit:
    """Runs the statement, or the shell."""
    given = job.arguments
    if given.rows < 1:
        raise UserError(f"--rows {given.rows}: write 1 or more")
    job.existing_warehouse_path()
    page, text = _page(given.answer)
    views = read_views()
    shell = Shell(Catalog(job.warehouse(), views), given.format, given.rows)
    if page is not None:
        page.write_text(answered(text, shell.table), encoding="utf-8")
        return Exit.DONE
    if given.statement is not None:
        shell.run(given.statement)
        return Exit.DONE
    if sys.stdin.isatty():
        with _line_editing(given.history, shell.catalog):
            shell.converse()
        return Exit.DONE
    for statement in statements(sys.stdin):
        shell.obey(statement)
    return Exit.DONE


def _page(path: str | None) -> tuple[Path | None, str]:
    if path is None:
        return None, ""
    try:
        return Path(path), Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the page {path} cannot be read ({error}): name another") from None


class Shell:
    """Runs statements on a catalog and prints what they give."""

    def __init__(self, catalog: Catalog, output: str, rows_max: int) -> None:
        self.catalog = catalog
        self.output = output
        self.rows_max = rows_max

    def converse(self) -> None:
        """Reads from the terminal until the end; a mistake is said and forgotten."""
        print("Spark SQL, only reading; `help` helps", file=sys.stderr)
        for statement in statements(_typed()):
            try:
                if not self.obey(statement):
                    return
            except UserError as error:
                print(f"error: {error}", file=sys.stderr)
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)

    def obey(self, statement: str) -> bool:
        """Does what a statement or a word of the shell says; False for quit."""
        word, _, rest = statement.partition(" ")
        match word.lower():
            case "quit" | "exit" | "\\q":
                return False
            case "help" | "\\?":
                print(_HELP)
            case "tables" | "\\d" if not rest:
                print("\n".join(self.tables()))
            case "format" if rest in ("table", "csv", "json"):
                self.output = rest
            case "\\d":
                self.run(f"DESCRIBE {rest}")
            case _:
                self.run(statement)
        return True

    def tables(self) -> list[str]:
        """Tables, then views, each with its comment."""
        named = [(table.name, table.comment) for table in self.catalog.tables]
        return in_columns([*named, *((view.name, view.comment) for view in self.catalog.views)])

    def run(self, statement: str) -> None:
        """Prints what a statement gives. Raises UserError."""
        if self.output == "table":
            print("\n".join(self.table(statement)))
            return
        with one_sentence():
            rows = self.catalog.query(statement)
            if self.output == "json":
                for line in json_lines(rows):
                    print(line)
                return
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(rows.columns)
            writer.writerows(text_rows(rows))

    def table(self, statement: str) -> list[str]:
        """What a statement gives, as lines in columns. Raises UserError."""
        with one_sentence():
            rows = self.catalog.query(statement)
            found = list(islice(text_rows(rows.limit(self.rows_max + 1)), self.rows_max + 1))
        if len(found) > self.rows_max:
            print(f"more than {self.rows_max} rows: --rows shows more", file=sys.stderr)
        numbers = {place for place, (_, kind) in enumerate(rows.dtypes) if _NUMBER.match(kind)}
        texts = [[_visible(text) for text in row] for row in found[: self.rows_max]]
        return in_columns([rows.columns, *texts], right=numbers)


def _visible(text: str) -> str:
    """Control characters as their codes: a client may call itself by a terminal's commands."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def statements(lines: Iterable[str]) -> Iterator[str]:
    """Statements, which end with a ; at the end of a line, and words of the shell, a line each."""
    pending: list[str] = []
    for line in lines:
        text = line.strip()
        if not pending and (not text or text.startswith("--")):
            continue
        if not pending and _is_word(text):
            yield text.rstrip(";").strip()
            continue
        pending.append(line.rstrip())
        if text.endswith(";"):
            yield "\n".join(pending).rstrip().rstrip(";")
            pending = []
    if any(line.strip() for line in pending):
        yield "\n".join(pending)


def _is_word(text: str) -> bool:
    """Words of the shell need no ; after them."""
    words = text.rstrip(";").lower().split()
    first = ("quit", "exit", "\\q", "help", "\\?", "tables", "\\d")
    return words[0] in first or (words[0] in ("describe", "format") and len(words) == 2)


def _typed() -> Iterator[str]:
    while True:
        try:
            yield input("sql> ")
        except KeyboardInterrupt:
            print()
        except EOFError:
            print()
            return


@contextmanager
def _line_editing(history: str | None, catalog: Catalog) -> Iterator[None]:
    """Line editing with names completed; history in memory, or in a file that was asked for."""
    try:
        import readline
    except ImportError:  # not every Python has it
        yield
        return
    names = [table.name for table in catalog.tables] + [view.name for view in catalog.views]

    def completed(text: str, which: int) -> str | None:
        matching = [name for name in names if name.startswith(text)]
        return matching[which] if which < len(matching) else None

    file = Path(history) if history else None
    readline.set_completer(completed)
    readline.parse_and_bind("tab: complete")
    if file is not None and file.is_file():
        readline.read_history_file(file)
    try:
        yield
    finally:
        if file is not None:
            file.touch(mode=0o600)  # statements may hold names that are nobody else's business
            readline.write_history_file(file)


def main(argv: Sequence[str] | None = None) -> int:
    """The job; ``argv`` without the program's name."""
    return run(PARSER, work, argv)


if __name__ == "__main__":
    sys.exit(main())
