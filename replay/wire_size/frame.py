"""What stands around a body: 4 bytes of length and a header.

Source: ``RequestHeader.json`` (the client id is an int16-length string in every version, so that
any broker can read it) and ``ResponseHeader.json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from .columns import Columns
    from .encoding import Bools, Ints

FRAME_BYTES = 4
#: api key, api version, correlation id, length of the client id.
REQUEST_HEADER_BYTES = 2 + 2 + 4 + 2
CORRELATION_ID_BYTES = 4


def request_overhead_bytes(columns: Columns, flexible: Bools) -> Ints:
    """Frame and header of each request, from ``client_id``."""
    fixed = FRAME_BYTES + REQUEST_HEADER_BYTES
    return fixed + columns.utf8_lengths("client_id") + flexible


def response_overhead_bytes(flexible: Bools) -> Ints:
    """Frame and header of each response."""
    overhead: Ints = FRAME_BYTES + CORRELATION_ID_BYTES + flexible.astype("int64")
    return overhead


def sizes_array(sizes: Ints, known: Bools) -> pa.Int64Array:
    """Sizes as Arrow, null where not known."""
    return pa.array(sizes, pa.int64(), mask=~known)
