"""The warehouse as a database of Spark SQL: tables and views by plain name, each column with its
comment; and which statements may be run on it.

Tables are made known to the session's own catalog, in memory: nothing is written, and every other
session is as before. Views are those of ``pipelines.analysis.views`` whose tables are there.

Theory of operation of reading only
-----------------------------------
Spark's own parser reads a statement before anything runs. It must be one of a few commands that
show or describe, or a plan of nothing but nodes that queries are made of, whatever is in its
subqueries and WITH included; and it must not name a function that calls Java. What is not listed is
refused, so that a statement that a later Spark or Delta learns writes nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kip_replay.pipelines.analysis.views import View
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse.tables import WRITERS, Warehouse
from kip_replay.replay.schema import TABLES, Table

DATABASE = "kafka_replay"
#: Commands and statements that change nothing, as Spark's and Delta's parsers name them.
_SHOWS = frozenset(
    {
        "DescribeColumn",
        "DescribeDeltaDetailCommand",
        "DescribeDeltaHistory",
        "DescribeFunction",
        "DescribeQueryCommand",
        "DescribeRelation",
        "ExplainCommand",
        "ShowColumns",
        "ShowCreateTable",
        "ShowFunctions",
        "ShowTables",
        "ShowTblProperties",
        "ShowViews",
    }
)
#: Nodes of plans that queries are parsed to.
_QUERY_NODES = frozenset(
    {
        "Aggregate",
        "AsOfJoin",
        "Deduplicate",
        "Distinct",
        "Except",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Intersect",
        "Join",
        "LateralJoin",
        "LocalLimit",
        "LocalRelation",
        "Offset",
        "OneRowRelation",
        "Pivot",
        "Project",
        "Range",
        "RelationTimeTravel",
        "Repartition",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Tail",
        "Union",
        "UnresolvedHaving",
        "UnresolvedHint",
        "UnresolvedInlineTable",
        "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedTVFAliases",
        "UnresolvedTableValuedFunction",
        "UnresolvedWith",
        "Unpivot",
        "Window",
        "WithWindowDefinition",
    }
)
#: Functions that call any method of Java.
_CALLING_JAVA = frozenset({"reflect", "java_method", "try_reflect"})


class Catalog:
    """The database of a warehouse, in a session of its own."""

    def __init__(self, warehouse: Warehouse, views: Sequence[View]) -> None:
        self.spark = warehouse.spark.newSession()
        self.tables = [table for table in TABLES.values() if warehouse.exists(table)]
        if not self.tables:
            raise UserError(
                f"there are no tables in the warehouse {warehouse.path}: name one with "
                "--warehouse, or make it with jobs.run"
            )
        there = {table.name for table in self.tables}
        self.views = [view for view in views if there.issuperset(view.reads)]
        # Its folder is there already, so that none is made; and it is never dropped, because the
        # folder would go with it.
        self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE} LOCATION {_text(warehouse.path)}")
        self.spark.sql(f"USE {DATABASE}")
        self._forget([table.name for table in TABLES.values()], [view.name for view in views])
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(self._make_known, self.tables, map(warehouse.path_of, self.tables)))
        for view in self.views:
            self.spark.sql(_view_statement(view))

    def _forget(self, tables: Collection[str], views: Collection[str]) -> None:
        """The sessions of a process share the catalog: what it knows may be another warehouse's."""
        for row in self.spark.sql(f"SHOW TABLES IN {DATABASE}").collect():
            name = row["tableName"]
            if name in views:
                self.spark.sql(f"DROP VIEW {DATABASE}.`{name}`")
            elif name in tables:
                self.spark.sql(f"DROP TABLE {DATABASE}.`{name}`")  # what it was made of stays

    def _make_known(self, table: Table, path: str) -> None:
        self.spark.sql(f"CREATE TABLE {DATABASE}.`{table.name}` USING delta LOCATION {_text(path)}")

    def query(self, statement: str) -> DataFrame:
        """What a statement that only reads gives; runs when rows are asked for.

        Raises UserError where it would do more, or where Spark does not understand it.
        """
        with one_sentence():
            require_reading(self.spark, statement)
            return self.spark.sql(statement)


def _view_statement(view: View) -> str:
    columns = ", ".join(f"`{name}` COMMENT {_text(comment)}" for name, comment in view.columns)
    return (
        f"CREATE VIEW {DATABASE}.`{view.name}` ({columns}) "
        f"COMMENT {_text(view.comment)} AS {view.query}"
    )


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# --- reading only ---------------------------------------------------------------------------------


def require_reading(spark: SparkSession, statement: str) -> None:
    """Raises UserError unless the statement only reads; PySparkException if it does not parse."""
    session: Any = spark._jsparkSession
    plan = session.sessionState().sqlParser().parsePlan(statement)
    if _name(plan) in _SHOWS:
        return
    kinds = _Kinds(spark)
    for node in kinds.nodes(plan):
        name = _name(node)
        if kinds.is_plan(node) and name not in _QUERY_NODES:
            raise UserError(
                "this only reads: SELECT, WITH, VALUES, SHOW, DESCRIBE and EXPLAIN are run, "
                f"and not what Spark calls {name}"
            )
        if name == "UnresolvedFunction" and _called(node) in _CALLING_JAVA:
            raise UserError(f"this only reads, and the function {_called(node)} can do anything")


class _Kinds:
    """What a node of a plan is, asked of its Java class."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm

        def kind(name: str) -> Any:
            return jvm.java.lang.Class.forName(f"org.apache.spark.sql.catalyst.{name}")

        self._plan = kind("plans.logical.LogicalPlan")
        self._subquery = kind("expressions.PlanExpression")

    def is_plan(self, node: Any) -> bool:
        """Whether it is a step of a plan, and not an expression in one."""
        return bool(self._plan.isInstance(node))

    def nodes(self, node: Any) -> Iterator[Any]:
        """A plan's nodes and expressions, those of subqueries and of WITH included."""
        yield node
        parts = [*_each(node.children()), *_each(node.innerChildren())]
        if self.is_plan(node):
            parts += _each(node.expressions())
        elif self._subquery.isInstance(node):
            parts.append(node.plan())
        for part in parts:
            yield from self.nodes(part)


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName()).rstrip("$")


def _called(function: Any) -> str:
    return str(function.nameParts().last()).lower()


@contextmanager
def one_sentence() -> Iterator[None]:
    """What Spark complains of becomes a UserError of a sentence, without class, place and plan."""
    try:
        yield
    except PySparkException as error:
        raise UserError(_sentence(str(error.getMessage() or error))) from None
    except Py4JJavaError as error:  # while rows are handed over one by one
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise UserError(_sentence(str(cause.getMessage()))) from None


def _sentence(message: str) -> str:
    first = next((line for line in message.splitlines() if line.strip()), "no message")
    return re.sub(r"^\[[A-Z0-9_.]+\]", "", first).partition(" SQLSTATE:")[0].strip()
