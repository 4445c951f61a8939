"""Predicts what Kafka protocol changes do to a cluster, from the request logs of its brokers.

What ``kip-replay run`` has written, as data frames::

    import kip_replay as kr

    w = kr.open("warehouse")
    w.tables()                                                 # tables and views: what a row says
    w.outcomes("hwm_parking", recording="metadata-4.0")        # what a rule says of each request
    w.table("slowest_requests", recording="metadata-4.0")      # any table or view
    w.sql("SELECT api_name, count(*) FROM requests GROUP BY ALL", as_="arrow")
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kip_replay.pipelines.api import OpenWarehouse

__all__ = ["open"]


def open(warehouse: str = "warehouse", seconds: int = 600) -> "OpenWarehouse":
    """Opens a warehouse to read: a folder, or the URI of one in an object store.

    ``seconds`` is what a query may take. Raises UserError, a ValueError, where there is none.
    """
    from kip_replay.pipelines.api import OpenWarehouse  # commands that need no tables start sooner

    return OpenWarehouse(warehouse, seconds)
