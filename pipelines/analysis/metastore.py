"""Names the tables and views of a warehouse in a catalog of Spark, for SQL of others.

Tables are external, by path: what a step commits is seen at once, and dropping them deletes no
file. Their comments are in their own logs; those of views, which are here, are written each time.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kip_replay.pipelines.analysis.views import View, comments_of, in_order
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES


@dataclass(frozen=True)
class Metastore:
    """A ``schema`` of the catalog of a Spark session, which may be in another catalog by name."""

    session: Any
    schema: str
    warehouse: Warehouse

    def register(self, views: Sequence[View]) -> tuple[int, int]:
        """Registers all, also what has no rows; how many tables and views. Raises UserError.

        Nothing is registered over a table of another place.
        """
        self.session.sql(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
        with self._used():
            own, other = self._tables()
            if other:
                raise UserError(
                    f"the schema {self.schema} has a table {other[0]} of another place than the "
                    f"warehouse {self.warehouse.path}: drop it, or name another schema"
                )
            tables = [*TABLES.values()]
            for table in tables:
                if not self.warehouse.exists(table):  # a statement that names it would fail
                    commits.create(self.warehouse.uri_of(table), table, self.warehouse.properties)
                commits.evolve(self.warehouse.open(table), table)
                if table.name not in own:
                    uri = _text(self.warehouse.uri_of(table))
                    self.session.sql(f"CREATE TABLE {table.name} USING delta LOCATION {uri}")
            known = {table.name: {c.name: c.comment for c in table.columns} for table in tables}
            views = in_order(views, known)
            for view in views:
                self._create(view, known)
            return len(tables), len(views)

    def drop(self, views: Sequence[View]) -> int:
        """Removes the tables of this warehouse, and its views from the catalog; counts these."""
        with self._used():
            own, _ = self._tables()
            for view in views if own else ():
                self.session.sql(f"DROP VIEW IF EXISTS {view.name}")
            for name in own:
                self.session.sql(f"DROP TABLE {name}")
            return len(own)

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Lets plain names be those of the schema, not of views that texts have read last."""
        [before] = self.session.sql("SELECT current_catalog(), current_schema()").collect()
        self.session.sql(f"USE {self.schema}")
        for view in self.session.sql("SHOW VIEWS").collect():
            if view["isTemporary"]:
                self.session.catalog.dropTempView(view["viewName"])
        try:
            yield
        finally:
            self.session.sql("USE `{}`.`{}`".format(*before))

    def _tables(self) -> tuple[list[str], list[str]]:
        """Names of tables that are this warehouse's, and of those of other places."""
        there = {row["tableName"] for row in self.session.sql("SHOW TABLES").collect()}
        tables = [table for table in TABLES.values() if table.name in there]
        own = [table.name for table in tables if self._is_own(table)]
        return own, sorted({table.name for table in tables} - {*own})

    def _is_own(self, table: Table) -> bool:
        rows = self.session.sql(f"DESCRIBE TABLE EXTENDED {table.name}").collect()
        places = (row["data_type"] for row in rows if row["col_name"] == "Location")
        uri = self.warehouse.uri_of(table)
        return any(re.sub("^file:(//)?", "", place) == uri for place in places)

    def _create(self, view: View, known: dict[str, dict[str, str]]) -> None:
        names = self.session.sql(view.query).columns
        known[view.name] = comments_of(view, names, known)
        columns = (f"`{name}` COMMENT {_text(text)}" for name, text in known[view.name].items())
        self.session.sql(
            f"CREATE OR REPLACE VIEW {view.name} ({', '.join(columns)}) "
            f"COMMENT {_text(view.comment)} AS {view.query}"
        )


def _text(text: str) -> str:
    """A literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
