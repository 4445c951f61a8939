"""What outcomes follow from besides the lines up to their time, as more than one rule has it."""

from duckdb import DuckDBPyConnection
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: Rows of ``topics`` that name an id. A topic's error takes nothing from that: METADATA returns the
#: id that the broker's image has for a name (``KafkaApis.getTopicMetadata``), and where the image
#: has only one of the two, the other is missing (3: no id; 100: no name, its id stands for it).
NAMES_AN_ID = "topic_id IS NOT NULL AND topic <> topic_id"

#: A topic that a CREATE_TOPICS line names can have been used so long before that line was written.
_CREATED_US = 60_000_000

_USABLE_NAMES = f"""
SELECT topic_id, min(topic) FROM topics
WHERE {NAMES_AN_ID}
GROUP BY topic_id
HAVING coalesce(min(epoch_us(built_at)) FILTER (source = 'CREATE_TOPICS') - $created_us, 0)
    <= $until_us
ORDER BY ALL
"""


def topic_names(topics: DataFrame) -> DataFrame:
    """recording, topic_id, name: the one name of each id that some line has."""
    named = topics.where(NAMES_AN_ID)
    return named.groupBy("recording", "topic_id").agg(F.min("topic").alias("name"))


def usable_names(database: DuckDBPyConnection, until_us: int) -> list[object]:
    """Names of topic ids that requests up to a time may carry.

    A topic that is created later is none of them; one that is only mentioned later may have been
    there all the time.
    """
    values = {"created_us": _CREATED_US, "until_us": until_us}
    return [*database.execute(_USABLE_NAMES, values).fetchall()]
