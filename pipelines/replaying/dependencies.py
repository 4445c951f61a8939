"""What a saved state follows from, in few enough words to ask again whether it still holds.

A replay that goes on from a saved state is right only if the log up to that point is what it was:
a file that comes late, or a name that is told only now, changes what the state should have been.
Each rule names the facts (``facts`` in its module) that its events up to a time follow from: how
many rows there are, which is enough where rows are read from the log and never change, and a hash
where the rows of one line follow from other lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: A topic that a CREATE_TOPICS line tells can have been used so long before that line was written.
_CREATED_US = 60_000_000


def row_count(what: str, rows: DataFrame, at: str, until_us: int) -> DataFrame:
    """One row: how many rows are of ``until_us`` or before, by the timestamp column ``at``."""
    before = rows.where(F.col(at) <= F.timestamp_micros(F.lit(until_us)))
    return before.agg(F.count("*").cast("string").alias("fact")).withColumn("what", F.lit(what))


def content(what: str, rows: DataFrame) -> DataFrame:
    """One row: a hash of all rows, in whatever order they come."""
    each = F.xxhash64(*rows.columns).cast("decimal(38,0)")
    counted = F.concat_ws(" ", F.count("*"), F.sum(each)).alias("fact")
    return rows.agg(counted).withColumn("what", F.lit(what))


def usable_names(topics: DataFrame, until_us: int) -> DataFrame:
    """topic_id, topic: names of ids that requests up to a time may carry.

    A topic that is created later is none of them; one that is only mentioned later may have been
    there all the time.
    """
    created = F.when(F.col("source") == "CREATE_TOPICS", F.unix_micros("at") - F.lit(_CREATED_US))
    named = topics.where("topic_id IS NOT NULL AND topic != topic_id AND error_code = 0")
    of_id = named.groupBy("topic_id").agg(
        F.min("topic").alias("topic"), F.min(created).alias("_usable_us")
    )
    return of_id.where(F.coalesce("_usable_us", F.lit(0)) <= until_us).drop("_usable_us")


def told(facts: Sequence[DataFrame]) -> dict[str, str]:
    """The facts by what they are of; one Spark job."""
    return {row["what"]: row["fact"] for row in reduce(DataFrame.unionByName, facts).collect()}
