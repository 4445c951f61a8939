"""Which libraries use no sessions, whatever their client ids are."""

from constructed import database, row

from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.replay.log_tables import FETCHES, REQUESTS
from kip_replay.replay.tables import TABLES

VIEWS = in_order(read_views(), TABLES)


def test_a_connection_is_its_librarys_from_its_first_line() -> None:
    lines, fetches = [], []

    def sent(connection: str, library: str, api: str = "FETCH", **fetch: int) -> None:
        of = {"node_id": 11, "client_id": "app", "connection": connection}
        lines.append(row(REQUESTS, **of, api_name=api, software_name=library, is_forwarded=False))
        if fetch:
            of |= {"request_id": lines[-1]["request_id"], "is_cluster_metadata": False}
            fetches.append(row(FETCHES, **of, error_code=0, **fetch))

    for connection in ("a", "b"):
        sent(connection, "unknown", "API_VERSIONS")
        sent(connection, "rdkafka", replica_id=-1, session_id=0, session_epoch=-1)
    sent("c", "java", replica_id=-1, session_id=0, session_epoch=0, response_session_id=0)
    sent("c", "java", replica_id=-1, session_id=5, session_epoch=1)
    sent("d", "unknown", replica_id=12, session_id=0, session_epoch=0, response_session_id=7)
    sent("e", "rdkafka", "PRODUCE")
    lines.append(lines[-1] | {"request_id": "forwarded", "is_forwarded": True})
    with database({REQUESTS: lines, FETCHES: fetches}) as session:
        create_views(session, VIEWS)
        assert session.execute(
            "SELECT software_name, client_kind, connections, requests, fetches, produces, "
            "without_session, new_sessions, refused, incremental FROM client_software ORDER BY ALL"
        ).fetchall() == [
            ("java", "consumer", 1, 2, 2, 0, 0, 1, 1, 1),
            ("rdkafka", "consumer", 2, 4, 2, 0, 2, 0, 0, 0),
            ("rdkafka", "producer", 1, 1, 0, 1, 0, 0, 0, 0),
            (None, "follower", 1, 1, 1, 0, 0, 1, 0, 0),
        ]
