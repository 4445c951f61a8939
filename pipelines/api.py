"""A warehouse in Python: tables, views and SQL as data frames. ``kip_replay.open`` makes one."""

import difflib
from collections.abc import Iterable
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.recordings import ingested_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse, require_named, sql_text
from kip_replay.replay.tables import TABLES

#: What rows come as: pandas.DataFrame, pyarrow.Table, pyspark.sql.DataFrame.
As = Literal["pandas", "arrow", "spark"]
#: A recording, several, or all.
Names = str | Iterable[str] | None
#: Offsets stay exact beside missing ones, which NumPy's integers can't be.
_PANDAS = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}


class OpenWarehouse:
    """A warehouse that is open to read, as it is now; ``kip_replay.open`` it again for later runs.

    Times are in UTC, durations end in ``_ms``, sizes in ``_bytes``. Every method raises UserError
    with a sentence that says what is wrong.
    """

    def __init__(self, path: str, seconds: int) -> None:
        require_named(path)
        self._warehouse = Warehouse(path)
        self._catalog = Catalog(self._warehouse.path, read_views(), seconds)
        #: Names of the recordings.
        self.recordings = ingested_recordings(self._warehouse)

    def __repr__(self) -> str:
        return f"<warehouse {self._warehouse.path} of {', '.join(self.recordings)}>"

    def tables(self) -> pd.DataFrame:
        """The tables and views there are, with what a row of each says."""
        rows = self._catalog.comments.items()
        return pd.DataFrame(rows, columns=["name", "a row says"]).set_index("name")

    def columns(self, name: str) -> pd.DataFrame:
        """The columns of a table or view, with their types and what they say."""
        self._require(name)
        return self.sql(f"DESCRIBE {name}").set_index("column_name")

    def table(
        self, name: str, recording: Names = None, where: str = "true", as_: As = "pandas"
    ) -> Any:
        """The rows of a table or view, of which ``where`` chooses some::

            w.table("requests", recording="metadata-4.0", where="api_name = 'FETCH'")

        With ``as_="spark"`` Spark reads a table's files itself, however large it is.
        """
        self._require(name)
        names = self._names(recording)
        chosen = f"recording IN ({', '.join(map(sql_text, names)) or 'NULL'}) AND ({where})"
        if as_ == "spark" and name in TABLES:
            return self._spark().read(TABLES[name], names).where(chosen)
        return self.sql(f"SELECT * FROM {name} WHERE {chosen}", as_)

    def outcomes(
        self,
        rule: str,
        recording: Names = None,
        where: str = "parameter = 'none'",
        as_: As = "pandas",
    ) -> Any:
        """Returns the outcome of each request, per ``variant``: as recorded, and as it would be::

            w.outcomes(rule, recording="metadata-4.0").groupby("variant").size()

        ``verdict`` is ``unknown``, with a ``reason``, where the logs can't tell. ``where="true"``
        adds what other values of a ``parameter`` would do. ``table`` has a rule's other tables.
        """
        tables = {steps.name: steps.outcomes[0].name for steps in RULES}
        if rule not in tables:
            raise UserError(f"there is no rule {rule!r}, there are: {', '.join(tables)}")
        return self.table(tables[rule], recording, where, as_)

    def usage(self, recording: Names = None, by: str = "client", as_: As = "pandas") -> Any:
        """Sums up the load by principal, client, group or topic; '-' is what no line names::

        w.usage("prod-monday", by="principal")
        """
        if by not in (kinds := ("principal", "client", "group", "topic")):
            raise UserError(f"by={by!r}: write one of {', '.join(kinds)}")
        return self.table("load_by", recording, f"kind = '{by}'", as_)

    def decisions(self, recording: Names = None, as_: As = "pandas") -> Any:
        """Returns the advice on each rule, per recording: advice, reason, gain and price."""
        return self.table("decisions", recording, as_=as_)

    def headlines(self, recording: Names = None, as_: As = "pandas") -> Any:
        """The figures that decisions rest on: before, after, and an interval."""
        return self.table("headlines", recording, as_=as_)

    def sql(self, statement: str, as_: As = "pandas") -> Any:
        """Runs a statement of DuckDB's SQL, which only reads::

        w.sql("SELECT api_name, count(*) AS requests FROM requests GROUP BY ALL")
        """
        rows = self._catalog.arrow(statement)
        match as_:
            case "pandas":
                return rows.to_pandas(types_mapper=_PANDAS.get)
            case "arrow":
                return rows
            case "spark":
                return self._spark().session.createDataFrame(rows)
        raise UserError(f"as_={as_!r}: write pandas, arrow or spark")

    def _require(self, name: str) -> None:
        if name not in self._catalog.comments:
            near = difflib.get_close_matches(name, self._catalog.comments, n=3)
            meant = f"is {' or '.join(near)} meant? " if near else ""
            raise UserError(
                f"there is no table or view {name!r} in the warehouse {self._warehouse.path}: "
                f"{meant}tables() lists those there are, `kip-replay run` makes what is missing"
            )

    def _names(self, recording: Names) -> list[str]:
        several = self.recordings if recording is None else recording
        names = [several] if isinstance(several, str) else [*several]
        if missing := sorted({*names} - {*self.recordings}):
            raise UserError(
                f"there is no recording {missing[0]!r} in the warehouse {self._warehouse.path}, "
                f"there are: {', '.join(self.recordings)}"
            )
        return names

    def _spark(self) -> Any:
        from kip_replay.pipelines.engines.spark import Spark  # pyspark may not be installed

        return Spark(self._warehouse)
