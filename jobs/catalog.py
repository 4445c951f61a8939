"""Names the tables and views of a warehouse in a catalog of Spark, or takes them out of it."""

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import metastore_of, registered, schema_of
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.errors import UserError

PARSER = JobParser(
    "catalog",
    "Registers tables and views of a warehouse in a schema of Spark's catalog: the Hive metastore "
    "of hive-site.xml (without one, in the folder metastore_db, as spark-sql has it), that of "
    "spark-submit, or that of the server that SPARK_REMOTE names.\n\n"
    "Tables are external: dropping them deletes no file. kip-replay run --catalog does the same "
    "after its commits. Spark needs Delta's jars.",
    """  kip-replay catalog register --catalog kafka_replay
  kip-replay catalog drop --catalog main.kafka_replay --warehouse s3://bucket/warehouse""",
    JobParser.with_catalog,
    JobParser.with_progress,
)
PARSER.add_argument("action", choices=("register", "drop"), help="add them, or take them out")


def work(job: Job) -> Exit:
    if not schema_of(job):
        raise UserError("name a schema: --catalog kafka_replay")
    is_registered = job.arguments.action == "register"
    warehouse = job.warehouse(writes=is_registered, is_there=True)
    if is_registered:
        registered(job, warehouse)
        return Exit.DONE
    store = metastore_of(job, warehouse)
    say(f"catalog: {store.drop(read_views())} tables are no longer in {store.schema}")
    return Exit.DONE


main = command(PARSER, work, __name__)
