"""An archive of Spark's loaded classes, made at set-up, that halves the time to a first result.

A short job of Spark spends most of its seconds on loading and verifying 20,000 classes. Java can
write them to a file in the form in which it keeps them in memory (class data sharing) and map that
file at the next start. The JVM checks the archive against its own build and the class path, and
starts without it if they differ: nothing but time depends on it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from kip_replay.pipelines.delta_jars import SPARK_JARS_DIR
from kip_replay.pipelines.session import (
    CLASS_ARCHIVE,
    SparkStartError,
    read_settings,
    spark_session,
)


def is_current() -> bool:
    """Whether the archive is there and no jar was added or replaced since."""
    newest_jar = max(path.stat().st_mtime for path in (SPARK_JARS_DIR, *SPARK_JARS_DIR.iterdir()))
    return CLASS_ARCHIVE.is_file() and CLASS_ARCHIVE.stat().st_mtime >= newest_jar


def create() -> None:
    """Runs a small job of the kind that this project runs and archives the classes it loaded."""
    CLASS_ARCHIVE.unlink(missing_ok=True)  # an archive cannot be made on top of another
    # Renamed when complete: a JVM may have the old one mapped, and a cut one must not be found.
    new_archive = CLASS_ARCHIVE.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session(
            "class archive",
            warehouse=folder,
            conf_overrides={
                "spark.master": "local[2]",
                "spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={new_archive}" '
                # It would list every class that it leaves out.
                "-Xlog:disable " + read_settings()["spark.driver.extraJavaOptions"],
            },
        )
        _work(spark, folder)
        spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None, "the session above runs in a JVM of ours"
    # The archive is written when the JVM ends, and it ends when its input does.
    gateway.proc.stdin.close()
    # A file cut short (a full disk) would crash the JVMs that map it.
    if gateway.proc.wait() == 0 and new_archive.is_file():
        new_archive.replace(CLASS_ARCHIVE)
    else:
        new_archive.unlink(missing_ok=True)


def _work(spark: SparkSession, folder: str) -> None:
    """What jobs do: shuffle, sort, join, window, Python workers, and Delta's commands."""
    table = f"{folder}/table"
    rows = spark.range(200, numPartitions=2).select(
        (F.col("id") % 7).alias("key"),
        "id",
        F.timestamp_micros(F.col("id") * 1_000).alias("at"),
        F.concat(F.lit("client-"), F.col("id")).alias("name"),
        F.array(F.struct(F.lit("topic").alias("topic"), F.col("id"))).alias("partitions"),
    )
    rows.write.format("delta").save(table)
    rows.write.format("delta").mode("append").save(table)
    third = rows.where("key = 3").write.format("delta").mode("overwrite")
    third.option("replaceWhere", "key = 3").save(table)
    read = spark.read.format("delta").load(table)
    ordered = read.repartition(3, "key").sortWithinPartitions("key", "at")
    ordered.groupBy("key").applyInArrow(_first_rows, "key bigint, id bigint").count()
    ordered.select("key", "id").mapInArrow(_unchanged, "key bigint, id bigint").toPandas()
    latest = F.row_number().over(Window.partitionBy("key").orderBy(F.desc("at")))
    newest = read.withColumn("n", latest).where("n = 1").select("key", "n")
    read.join(newest, "key").groupBy("key").agg(
        F.count("*"), F.max("at"), F.percentile("n", F.lit(0.5)), F.collect_list("name")
    ).orderBy("key").collect()
    read.select(F.explode("partitions")).distinct().count()
    changes = spark.createDataFrame(pa.table({"key": [1, 2], "name": ["a", "b"]}))
    changes.createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING changes c ON t.key = c.key AND t.id < 7 "
        "WHEN MATCHED THEN UPDATE SET name = c.name "
        "WHEN NOT MATCHED THEN INSERT (key, name) VALUES (c.key, c.name)"
    )
    spark.sql(f"DELETE FROM delta.`{table}` WHERE key = 5")
    spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()


def _first_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(["key", "id"]).slice(0, 1)


def _unchanged(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return batches


if __name__ == "__main__":
    import sys

    try:
        if not is_current():
            create()
    except SparkStartError as error:
        sys.exit(str(error))
