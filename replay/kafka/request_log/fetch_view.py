"""FETCH: what the table ``fetches`` has beside the fields of the bodies."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrow_rows import Columns, lists_in
from .typed_bodies import Bodies

METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
METADATA_TOPIC = "__cluster_metadata"


def columns(bodies: Bodies) -> Columns:
    request = bodies.request
    is_there = request["max_wait_ms"].is_valid()
    not_sent = pc.if_else(is_there, pa.scalar(-1, pa.int64()), None)
    return {
        **request,
        **bodies.response,
        "replica_epoch": pc.coalesce(request["replica_epoch"], not_sent),
        "is_cluster_metadata": pc.if_else(is_there, _fetch_metadata(request), None),
    }


def _fetch_metadata(request: Columns) -> pa.BooleanArray:
    """Raft FETCHes always name their partition: they have no sessions."""
    lengths, partitions = lists_in(request["request_partitions"])
    by_id = pc.equal(pc.struct_field(partitions, "topic_id"), METADATA_TOPIC_ID).fill_null(False)
    by_name = pc.equal(pc.struct_field(partitions, "topic"), METADATA_TOPIC).fill_null(False)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    found = rows[pc.or_(by_id, by_name).to_numpy(zero_copy_only=False)]
    return pa.array(np.bincount(found, minlength=len(lengths)) > 0)
