"""What outcomes follow from besides the lines up to their time, as more than one rule has it."""

from __future__ import annotations

from duckdb import DuckDBPyConnection

#: A topic that a CREATE_TOPICS line names can have been used so long before that line was written.
_CREATED_US = 60_000_000

_USABLE_NAMES = """
SELECT topic_id, min(topic) FROM topics
WHERE topic_id IS NOT NULL AND topic <> topic_id AND error_code = 0
GROUP BY topic_id
HAVING coalesce(min(epoch_us(built_at)) FILTER (source = 'CREATE_TOPICS') - $created_us, 0)
    <= $until_us
ORDER BY ALL
"""


def usable_names(database: DuckDBPyConnection, until_us: int) -> list[object]:
    """Names of topic ids that requests up to a time may carry.

    A topic that is created later is none of them; one that is only mentioned later may have been
    there all the time.
    """
    values = {"created_us": _CREATED_US, "until_us": until_us}
    return [*database.execute(_USABLE_NAMES, values).fetchall()]
