"""SQL on a warehouse: one statement, or a shell.

Rows go to stdout and nothing else does, so that csv and json can be piped. Statements only read:
``pipelines.analysis.catalog`` makes sure of that.
"""

import csv
import os
import re
import sys
from code import InteractiveConsole
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from sqlite3 import complete_statement

import pyarrow as pa

from kip_replay.jobs._cli import Exit, Job, JobParser, command
from kip_replay.jobs._text import in_columns
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import as_configured, read_views
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.printable import as_text, csv_text, json_object, visible

PARSER = JobParser(
    "sql",
    "DuckDB SQL on the tables and views of a warehouse, by plain name; it only reads.\n\n"
    "With a statement, prints its rows. Without one, reads statements that end with ; from the "
    "terminal, where Tab completes names, or from a pipe; `.help` lists the other commands.\n\n"
    "Tables of outcomes and sums also have rows for other values of a setting (parameter): their "
    "views named ..._as_configured, as all other views, leave these out.\n\n"
    "csv has a line of names first, json is an object a line; times are ISO 8601 in UTC.",
    """  kip-replay sql "SELECT recording, count(*) FROM requests GROUP BY ALL"
  kip-replay sql --format csv "SELECT * FROM steady_lag" > lag.csv
  kip-replay sql "DESCRIBE produce_ack_outcomes_as_configured"
  kip-replay sql --warehouse /data/warehouse < questions.sql""",
)
_FORMATS = ("table", "csv", "json")
_add = PARSER.add_argument
_add("statement", nargs="?", metavar="SQL", help="one statement; without: a shell")
_add("--format", choices=_FORMATS, default="table", help="default: %(default)s")
_add("--rows", type=int, default=1000, metavar="N", help="of a table at most (%(default)s)")
_add("--seconds", type=int, default=600, metavar="N", help="a statement may take (%(default)s)")
_add("--answer", metavar="PAGE", help="answer the queries of a page (docs/sql.md) in it")

_HELP = """statements end with ; and may take several lines. Tab completes names. Also:
  .tables             the tables and views, with what a row of each says
  .schema NAME        the columns of one
  .format table|csv|json
  .help, .quit (or Ctrl-D)"""
_QUERY = re.compile(r"```sql\n(?P<query>.*?)\n```\n(\n```text\n(.*?\n)??```\n)?", re.DOTALL)


def work(job: Job) -> Exit:
    given = job.arguments
    for option in ("rows", "seconds"):
        if (value := getattr(given, option)) < 1:
            raise UserError(f"--{option} {value}: write 1 or more")
    views = read_views(job.config["findings"])
    catalog = Catalog(job.warehouse(False, is_there=True).path, views, given.seconds)
    shell = Shell(catalog, given.format, given.rows)
    try:
        if given.answer is not None:
            _answer(Path(given.answer), shell)
        elif given.statement is not None:
            shell.run(given.statement)
        else:
            shell.converse() if sys.stdin.isatty() else shell.obey(sys.stdin)
        sys.stdout.flush()
    except BrokenPipeError:  # as `head` does when it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.DONE


def _answer(page: Path, shell: "Shell") -> None:
    try:
        text = page.read_text(encoding="utf-8")
        page.write_text(with_answers(text, shell.table), encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the page {page} cannot be used ({error}): name another") from None


def with_answers(page: str, answer: Callable[[str], Sequence[str]]) -> str:
    """The page with a block ``text`` after each block ``sql``: what ``answer`` gives for it."""

    def with_answer(match: re.Match[str]) -> str:
        lines = "\n".join(answer(match["query"]))
        return f"```sql\n{match['query']}\n```\n\n```text\n{lines}\n```\n"

    return _QUERY.sub(with_answer, page)


class Shell(InteractiveConsole):
    """Runs statements on a catalog and prints what they give."""

    def __init__(self, catalog: Catalog, output: str, rows_max: int) -> None:
        super().__init__()
        self.catalog, self.output, self.rows_max = catalog, output, rows_max

    def converse(self) -> None:
        """Reads from the terminal until the end; goes on after an error."""
        with suppress(ImportError):  # not every Python has it
            import readline  # from then on, input() edits lines

            def completion(text: str, place: int) -> str | None:
                return [*self.completions(text, readline.get_line_buffer()), None][place]

            readline.set_completer(completion)
            is_libedit = "libedit" in (readline.__doc__ or "")  # macOS
            readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        sys.ps1, sys.ps2 = "sql> ", "...> "
        with suppress(EOFError):
            self.interact("DuckDB SQL, only reading; .help helps, Tab completes", exitmsg="")

    def obey(self, lines: Iterable[str]) -> None:
        """Runs statements, of which the last need not end with a ;. Raises UserError."""
        with suppress(EOFError):
            for line in chain(lines, ";"):
                self.push(line.rstrip("\n"))

    def push(self, line: str) -> bool:
        """Takes a line, and runs what is complete then. Raises UserError, but in a terminal."""
        try:
            return super().push(line)
        except UserError as error:
            if not sys.stdin.isatty():
                raise
            print(f"error: {visible(str(error))}", file=sys.stderr)
        self.resetbuffer()
        return False

    def runsource(self, source: str, filename: str = "", symbol: str = "") -> bool:
        """Runs a statement or a command; True if more lines belong to it. EOFError is the end."""
        text = source.strip()
        name, _, rest = text.rstrip("; ").partition(" ")
        if name in ("", ".quit", "quit", "exit"):
            if name:
                raise EOFError
        elif name == ".help":
            print(_HELP)
        elif name == ".tables":
            print("\n".join(in_columns([*self.catalog.comments.items()])))
        elif name == ".schema" and rest:
            self.run(f"DESCRIBE {rest}")
        elif name == ".format" and rest in _FORMATS:
            self.output = rest
        elif name.startswith("."):
            raise UserError(f"there is no command {text}: .help lists them")
        elif complete_statement(source):
            self.run(text)
        else:
            return not re.fullmatch("--.*", text)  # a comment between statements belongs to none
        return False

    def completions(self, text: str, line: str) -> list[str]:
        """Completes a word of a line: tables, views, columns of those that it names."""
        tables = self.catalog.comments
        named = [name for name in tables if re.search(rf"\b{name}\b", line)] or [*tables]
        columns = {name: self.catalog.columns(name) for name in named}
        names = {*tables, *chain(*columns.values())}
        names |= {f"{name}.{column}" for name in columns for column in columns[name] if "." in text}
        names |= {".tables", ".schema", ".format", ".help", ".quit"} if text[:1] == "." else set()
        return sorted(name for name in names if name.startswith(text.lower()))

    def run(self, statement: str) -> None:
        """Prints what a statement gives. Raises UserError."""
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
        found = [[as_text(value) for value in row] for row in islice(rows, self.rows_max + 1)]
        if len(found) > self.rows_max:
            print(f"more than {self.rows_max} rows: --rows shows more", file=sys.stderr)
        lines = [[visible(text) for text in row] for row in [schema.names, *found]]
        is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        right = [at for at, kind in enumerate(schema.types) if any(is_(kind) for is_ in is_number)]
        return in_columns(lines[: self.rows_max + 1], right)


main = command(PARSER, work, __name__)
