"""Finds this project's own files, and reads those of rules that are data, by their schemas."""

import tomllib
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from kip_replay.pipelines.errors import UserError

_Schema = TypeVar("_Schema")
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Kind(StrEnum):
    """Names the kinds of rows of prediction_accuracy."""

    OTHER_CLUSTER = "other_cluster"
    SELF_CHECK = "self_check"
    BOUND = "bound"
    DRAFT = "draft"
    TWO_RUNS = "two_runs"


class Tolerance(msgspec.Struct, forbid_unknown_fields=True):
    """The largest |error| that passes: absolute in the metric's unit, relative, or the larger.

    ``variant``: None for any. A relative one is of |recorded|, or of the row's ``scale``.
    """

    kind: Kind
    metric: str
    variant: str | None = None
    absolute: float | None = None
    relative: float | None = None


class RuleKey(msgspec.Struct, forbid_unknown_fields=True):
    """A key of ``recording.json`` that a rule reads; ``missing`` says what holds without it.

    ``config``: of a count, the brokers' config that ``kip-replay record`` writes there.
    """

    type: Literal["count", "text", "texts", "topics"]
    says: _Text
    missing: _Text
    config: _Text | None = None


class Severity(StrEnum):
    """Grades rows that fail; the words are Great Expectations'."""

    WARNING = "warning"
    """Figures may be off where the rows are."""
    CRITICAL = "critical"
    """What the tables say of that recording is not to be relied on: exit status 3."""


class StatedExpectation(msgspec.Struct, forbid_unknown_fields=True):
    """One ``[[expectation]]``: conditions that hold for each row of tables, or a SELECT of rows
    that fail, with ``{batch}`` for the table and ``recording`` among its columns."""

    #: Tables by name, or every rule's outcome tables that have some columns.
    tables: list[str] | None = None
    outcomes_with: list[str] | None = None
    #: Each is an expectation of its own, by that name; a condition that is NULL holds.
    holds: list[str] = []
    #: Of which rows it is required.
    where: str | None = None
    unexpected_rows_query: str | None = None
    name: str | None = None
    description: str | None = None
    severity: Severity = Severity.CRITICAL
    #: Compares what only the whole of a recording has, such as sums with rows.
    of_all: bool = False

    def __post_init__(self) -> None:
        if (self.tables is None) == (self.outcomes_with is None):
            raise ValueError("Expected one of `tables` and `outcomes_with`")
        if bool(self.holds) == bool(self.unexpected_rows_query):
            raise ValueError("Expected one of `holds` and `unexpected_rows_query`")
        if self.unexpected_rows_query and not self.name:
            raise ValueError("Expected a `name` with `unexpected_rows_query`")
        if self.name and len(self.holds) > 1:
            raise ValueError("Expected one condition in `holds` with a `name`")
        if self.where and not self.holds:
            raise ValueError("Expected `where` with `holds` only")


class Suite(msgspec.Struct, forbid_unknown_fields=True):
    """A file of conf/quality, or of the user's."""

    expectation: list[StatedExpectation]


class RuleFile(Suite, forbid_unknown_fields=True):
    """``rule.toml``; ``defaults``: the rule's section of the configuration.

    ``follows``: rules whose outcomes it reads; it may read ``RULE_events`` of them, too. ``sums``:
    texts whose rows add up, so that a growing recording gives them what was kept and what is new.
    """

    tolerances: list[Tolerance]
    follows: list[str] = []
    sums: list[str] = []
    defaults: dict[str, Any] = {}
    manifest: dict[str, RuleKey] = {}


class Headline(msgspec.Struct, forbid_unknown_fields=True):
    """A figure that a decision rests on: a row of ``headlines``, and how the page names it.

    ``name`` is that of the metric and the figure unless stated; so is ``self_check``, the metric of
    the self-check that says how far it is off, where one has a tolerance.
    """

    role: Literal["gain", "price"]
    says: str
    metric: str
    figure: str
    #: The setting or fact that is the least gain or the highest price.
    limit_name: str
    name: str | None = None
    group_kind: str = "all"
    #: Variants that are compared.
    before: str | None = None
    after: str | None = None
    self_check: str | None = None
    #: What sentences say that it is of.
    basis: str | None = None
    values: str | None = None
    is_ratio: bool = False
    #: Of the group with this value, or with the largest figure after the change; else the first.
    group_value: str | None = None
    is_largest: bool = False
    #: What stands in for it where it is not known, or of few values.
    other: list[dict[str, str]] = msgspec.field(name="else", default=[])


class Shown(msgspec.Struct, forbid_unknown_fields=True):
    """A part of the page: a mark of pipelines/report/marks.py and the query of its rows."""

    mark: Literal["table", "lines"]
    name: str
    query: str
    note: str | None = None
    x: str | None = None
    y: str | None = None
    x_scale: str | None = None
    y_scale: str | None = None
    columns: list[str] = []
    sentences: dict[str, str] = {}
    is_rate: bool = False


class Page(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """``page.toml``."""

    kip: str
    title: str
    about: str
    #: A release with the change, or the state of the proposal.
    released: str | None = None
    proposal: str | None = None
    link: str | None = None
    #: What to paste where the advice is to do it.
    paste: str | None = None
    #: The tables that figures are of, in words, and what their rows are.
    outcomes: dict[str, str]
    #: Sentences by the code of a decision's reason.
    reasons: dict[str, str]
    headlines: list[Headline]
    #: A variant's name in words, long and short.
    variants: dict[str, Annotated[list[str], msgspec.Meta(min_length=2, max_length=2)]]
    metrics: dict[str, str]
    method: list[str] = []
    accuracy: str = ""
    #: Figures that ``--fail-on`` may name: metric and variant.
    thresholds: dict[str, Annotated[list[str], msgspec.Meta(min_length=2, max_length=2)]] = {}
    words: dict[str, str] = {}
    show: list[Shown] = []

    def __post_init__(self) -> None:
        if (self.released is None) == (self.proposal is None):
            raise ValueError("Expected one of `released` and `proposal`")


#: Columns that the text ``facts`` has at least, a row a recording: how many requests there were,
#: whether brokers ran the rule's change, and whether only some did. Sentences may name others.
_FACTS = {"recording", "requests", "in_use", "is_mixed"}


def require_facts(rule: str, columns: Collection[str]) -> None:
    """Raises UserError where a rule's text ``facts`` lacks a column."""
    if missing := sorted(_FACTS - {*columns}):
        raise UserError(f"facts of the rule {rule} lacks the column {', '.join(missing)}")


def read_toml(file: Path, schema: type[_Schema]) -> _Schema:
    """Reads a file that has a schema. Raises UserError with the file, the key and what it needs."""
    try:
        return msgspec.convert(tomllib.loads(file.read_text("utf-8")), schema)
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None


def read_page(file: Path) -> Mapping[str, Any]:
    """Reads ``page.toml`` as it is, once it is checked. Raises UserError likewise."""
    page = read_toml(file, Page)
    texts = {"method": page.method, "accuracy": page.accuracy, "words": page.words}
    return {**texts, **tomllib.loads(file.read_text("utf-8"))}


#: The folder of the packages: the clone, or kip_replay where it is installed.
ROOT = Path(__file__).resolve().parent.parent
#: A folder for each rule, and the errors of all, which ``make docs`` prints.
RULES_FOLDER = ROOT / "pipelines" / "rules"
RULES_ERRORS = RULES_FOLDER / "errors.toml"


def conf_dir() -> Path:
    return ROOT / "conf"


def of_rules(pattern: str) -> list[Path]:
    """Files that the rules keep in their folders of pipelines/rules, without importing a rule."""
    return sorted(RULES_FOLDER.glob(f"*/{pattern}"))


@cache
def rule_files() -> Mapping[str, RuleFile]:
    """Reads each rule's ``rule.toml``, by the rule's name."""
    return {file.parent.name: read_toml(file, RuleFile) for file in of_rules("rule.toml")}


@cache
def rule_pages() -> Mapping[str, Mapping[str, Any]]:
    """Reads each rule's ``page.toml``, by the rule's name."""
    return {file.parent.name: read_page(file) for file in of_rules("page.toml")}


def rule_headlines(rule: str) -> list[Mapping[str, Any]]:
    """The figures that a rule's ``page.toml`` states, each with its ``place``; behind it, with a
    higher ``choice``, those that stand in for it where it is not known, or of few values."""
    rows: list[Mapping[str, Any]] = []
    tolerances = rule_files()[rule].tolerances
    checked = {stated.metric for stated in tolerances if stated.kind is Kind.SELF_CHECK}
    for place, headline in enumerate(rule_pages()[rule]["headlines"]):
        figure = f"{headline['metric']}_{headline['figure']}"
        usual = {"group_kind": "all", "self_check": figure if figure in checked else None}
        for choice, other in enumerate(({}, *headline.get("else", ()))):
            row = {**usual, **headline, **other, "place": place, "choice": choice}
            rows.append({"name": f"{row['metric']}_{row['figure']}", **row})
    return rows
