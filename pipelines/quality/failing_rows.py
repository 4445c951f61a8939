"""Spark's part: the rows that fail, for all expectations and recordings at once.

Each table is read once for everything that is said of its rows one by one: a row gives its key's
hash, the request it is of, and a piece of JSON for each condition that it fails. Grouped, these
tell how many rows there are, which keys are shared, and which requests are not there. Queries
stand beside, in the same union. What comes back to the driver is a count for each expectation and
recording, and a bounded number of rows to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import Expectation
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import REQUESTS, TABLES

_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
_GROUP = ("recording", "expectation")
_KEY, _REFERENCE, _CONDITION = "key", "reference", "condition"
#: An expectation and its number, by which its rows are known in Spark.
Numbered = tuple[int, Expectation]


@dataclass(frozen=True)
class Finding:
    """What was found of one expectation in one recording.

    ``rows_checked``: rows of the recording in the expectation's table. ``kept``: the first failing
    rows as JSON, in the order of their text.
    """

    recording: str
    expectation: Expectation
    rows_checked: int = 0
    failing_rows: int = 0
    kept: tuple[str, ...] = field(default=())


def find(
    warehouse: Warehouse,
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    kept_rows: int,
) -> list[Finding]:
    """A finding for every recording and expectation.

    ``rows_checked`` is known of tables whose key one of the expectations looks at, else 0.
    Raises UserError where the SQL of a suite is wrong.
    """
    names = sorted({REQUESTS.name}.union(*(each.tables for each in expectations)))
    warehouse.create_missing(TABLES[name] for name in names)
    frames = {name: warehouse.read(TABLES[name], recordings) for name in names}
    spark = warehouse.spark
    numbered = list(enumerate(expectations))
    parts = [_of_query(spark, frames, n, each) for n, each in numbered if each.query is not None]
    of_single_rows = [(n, each) for n, each in numbered if each.query is None]
    sizes = []
    if of_single_rows:
        grouped = _grouped(frames, of_single_rows)
        parts.append(_failing(grouped, frames[REQUESTS.name]))
        sizes.append(_sizes(grouped))
    answers = _union([_counted(_union(parts), kept_rows), *sizes])
    try:
        found = {(row["recording"], row["expectation"]): row for row in answers.collect()}
    except PySparkException as error:
        raise UserError(
            f"a query of the quality suites failed ({_first_line(error)}): correct it"
        ) from error
    places = {each.table.name: -1 - number for number, each in numbered if each.key}
    findings = []
    for recording in recordings:
        for number, each in numbered:
            row = found.get((recording, number))
            rows: int = row["rows"] if row else 0
            kept: Sequence[str] = row["kept"] if row else ()
            if rows and each.key:
                kept = _shared_keys(frames[each.table.name], each, recording, kept_rows)
            size = found.get((recording, places.get(each.table.name, 0)))
            findings.append(
                Finding(recording, each, size["rows"] if size else 0, rows, tuple(kept))
            )
    return findings


def _grouped(frames: Mapping[str, DataFrame], asked: Sequence[Numbered]) -> DataFrame:
    """What single rows say: recording, expectation, kind, hash_1, hash_2, text, rows.

    ``kind`` is key (with hashes), reference (text is a request_id) or condition (text is the row).
    """
    of_table: dict[str, list[Numbered]] = defaultdict(list)
    for number, each in asked:
        of_table[each.table.name].append((number, each))
    said = [_said(frames[name], of_rows) for name, of_rows in of_table.items()]
    columns = ("recording", "expectation", "kind", "hash_1", "hash_2", "text")
    return _union(said).groupBy(*columns).agg(F.count(F.lit(1)).alias("rows"))


def _said(frame: DataFrame, asked: Sequence[Numbered]) -> DataFrame:
    """One reading of a table."""
    facts = []
    for number, each in asked:
        if each.key:
            key = [F.col(f"`{name}`") for name in each.table.key]
            # 96 bits: rows with one hash have one key.
            facts.append(_fact(number, _KEY, hash_1=F.xxhash64(*key), hash_2=F.hash(*key)))
        elif each.in_requests is not None:
            request_id = F.col(each.in_requests)
            fact = _fact(number, _REFERENCE, text=request_id)
            facts.append(F.when(request_id.isNotNull(), fact))
        else:
            condition = F.expr(f"({each.fails_where})")
            try:
                frame.where(condition)
            except PySparkException as error:
                raise _wrong(each, error) from error
            facts.append(
                F.when(condition, _fact(number, _CONDITION, text=_json(each.kept_columns)))
            )
    those = F.filter(F.array(*facts), lambda fact: fact.isNotNull())
    return frame.select("recording", F.inline(those))


def _fact(number: int, kind: str, **values: Column) -> Column:
    return F.struct(
        F.lit(number).alias("expectation"),
        F.lit(kind).alias("kind"),
        values.get("hash_1", F.lit(0).cast("bigint")).alias("hash_1"),
        values.get("hash_2", F.lit(0)).alias("hash_2"),
        values.get("text", F.lit("")).alias("text"),
    )


def _failing(grouped: DataFrame, requests: DataFrame) -> DataFrame:
    """Failing rows among ``_grouped``: recording, expectation, row (JSON), rows."""
    known = requests.select("recording", F.col("request_id").alias("text"), F.lit(True).alias("is"))
    is_unknown = (F.col("kind") == _REFERENCE) & F.col("is").isNull()
    is_shared = (F.col("kind") == _KEY) & (F.col("rows") > 1)
    row = F.when(
        F.col("kind") == _REFERENCE, F.to_json(F.struct(F.col("text").alias("request_id")))
    ).otherwise(F.col("text"))
    return (
        grouped.where((F.col("kind") != _KEY) | is_shared)
        .join(known, ["recording", "text"], "left")
        .where((F.col("kind") == _CONDITION) | is_unknown | is_shared)
        .select("recording", "expectation", row.alias("row"), "rows")
    )


def _sizes(grouped: DataFrame) -> DataFrame:
    """Rows of the tables whose key is looked at, as expectation -1, -2, ... by its number."""
    keys = grouped.where(F.col("kind") == _KEY).groupBy("recording", "expectation")
    return keys.agg(F.sum("rows").alias("rows")).select(
        "recording",
        (F.lit(-1) - F.col("expectation")).alias("expectation"),
        "rows",
        F.array().cast("array<string>").alias("kept"),
    )


def _shared_keys(
    frame: DataFrame, expectation: Expectation, recording: str, kept_rows: int
) -> tuple[str, ...]:
    """The first keys that several rows have: asked for only where there are any."""
    mine = frame.where(F.col("recording") == recording)
    counted = mine.groupBy(*expectation.table.key).agg(F.count(F.lit(1)).alias("rows"))
    row = _json([*expectation.table.key, "rows"]).alias("row")
    shared = counted.where("rows > 1").select(row).orderBy("row").limit(kept_rows)
    return tuple(each["row"] for each in shared.collect())


def _of_query(
    spark: SparkSession, frames: Mapping[str, DataFrame], number: int, expectation: Expectation
) -> DataFrame:
    query = expectation.query or ""
    try:
        tables: dict[str, Any] = {name: frames[name] for name in expectation.tables}
        rows = spark.sql(query, **tables)
        return rows.select(
            F.col("recording"),
            F.lit(number).alias("expectation"),
            _json(rows.columns).alias("row"),
            F.lit(1).cast("bigint").alias("rows"),
        )
    except PySparkException as error:
        raise _wrong(expectation, error) from error


def _counted(failing: DataFrame, kept_rows: int) -> DataFrame:
    """recording, expectation, rows, kept (the first ``kept_rows``, sorted)."""
    place = F.row_number().over(Window.partitionBy(*_GROUP).orderBy("row"))
    first = F.when(F.col("place") <= kept_rows, F.col("row"))
    return (
        failing.withColumn("place", place)
        .groupBy(*_GROUP)
        .agg(F.sum("rows").alias("rows"), F.sort_array(F.collect_list(first)).alias("kept"))
    )


def _json(columns: Iterable[str]) -> Column:
    """The columns but the recording's, as one JSON object."""
    kept = [F.col(f"`{name}`") for name in columns if name != "recording"]
    return F.to_json(F.struct(*kept), _JSON)


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _wrong(expectation: Expectation, error: PySparkException) -> UserError:
    return UserError(
        f"the expectation {expectation.name!r} of the suite {expectation.suite!r} is not Spark SQL "
        f"over the columns of docs/tables.md ({_first_line(error)}): correct it"
    )


def _first_line(error: PySparkException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
