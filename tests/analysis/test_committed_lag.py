"""Committed lag: the high watermark that was last seen before the last commit, less its offset."""

from constructed import Row, at, row, viewed

from kip_replay.replay.log_tables import Fetches, GroupAssignments, Topics

OF: Row = {"recording": "r", "node_id": 11}


def committed(second: float, offset: int | None, source: str = "OFFSET_COMMIT") -> Row:
    partition = {"topic": "t", "partition": 3, "committed_offset": offset}
    of: Row = {"group_id": "g", "member_id": "m", "source": source, "built_at": at(second)}
    return row(GroupAssignments, **OF, **of, partitions=[partition])


def returned(second: float, high_watermark: int, error_code: int = 0) -> Row:
    of = {"topic_id": "ID", "partition": 3, "error_code": error_code}
    partitions = [
        of | {"high_watermark": high_watermark},
        of | {"partition": 4, "high_watermark": 99},
    ]
    built: Row = {"built_at": at(second), "is_cluster_metadata": False}
    return row(Fetches, **OF, **built, response_partitions=partitions)


def test_lag_is_of_the_last_commit_and_what_was_seen_before_it() -> None:
    commits = [
        committed(2, 8),
        committed(5, 11),
        committed(7, None),
        committed(8, None, "SYNC_GROUP"),
    ]
    seen = [returned(1, 10), returned(4, 15), returned(4.5, -1, error_code=6), returned(6, 40)]
    name = row(Topics, **OF, topic="t", topic_id="ID", source="METADATA")
    with viewed({GroupAssignments: commits, Fetches: seen, Topics: [name]}) as session:
        assert session.sql("FROM committed_lag").to_arrow_table().to_pylist() == [
            {
                "recording": "r",
                "group_id": "g",
                "topic": "t",
                "partition": 3,
                "committed_offset": 11,
            }
            | {"high_watermark": 15, "lag": 4, "committed_at": at(5)}
        ]
    with viewed({GroupAssignments: commits}) as session:
        assert session.sql("SELECT lag FROM committed_lag").fetchall() == [(None,)]
