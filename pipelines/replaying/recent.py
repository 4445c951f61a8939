"""The recent part of recordings that grow: what a run looks at, until they are closed."""

from collections.abc import Collection
from datetime import timedelta

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.states import FollowsFrom
from kip_replay.pipelines.warehouse.data_files import moment
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

_READ = Text("""
    WITH read AS (
        SELECT recording, ingest_epoch, min(first_received_at) AS first_at,
            max(last_completed_at) AS last_at
        FROM ingested_files WHERE requests > 0 GROUP BY recording, ingest_epoch
    )
    SELECT recording, min(first_at) AS first_at, max_by(first_at, ingest_epoch) AS new_at,
        max(last_at) AS last_at
    FROM read GROUP BY recording""")


def is_growing(follows_from: str | None) -> bool:
    """Returns whether a rule has replayed no more than an increment, by what its lineage states."""
    parts = (follows_from or "").split(" ")
    return parts[0].isdigit() and len(parts) == len(FollowsFrom._fields)


def recent_of(warehouse: Warehouse, recordings: Collection[str], minutes: float) -> Warehouse:
    """The warehouse with the recent part of each recording that grows, and the whole of others.

    It is as long as what the last ingest has read, and no less than ``minutes``, up to what rules
    have replayed.
    """
    until_us: dict[str, int] = {}
    for (name, _), text in warehouse.lineage(recordings).items():
        if is_growing(text):
            us = FollowsFrom.of(text).until_us
            until_us[name] = min(us, until_us.get(name, us))
    if not until_us:
        return warehouse
    moments = {}
    for row in Local(warehouse).rows(_READ, until_us).to_pylist():
        length = max(row["last_at"] - row["new_at"], timedelta(minutes=minutes))
        begin = moment(until_us[row["recording"]]) - length
        if begin > row["first_at"]:
            moments[row["recording"]] = begin.replace(microsecond=0)
    return warehouse.since(moments, [table for table in TABLES.values() if table.holds_on])
