"""INIT_PRODUCER_ID: its bodies as a row of ``producer_ids``.

Source: ``InitProducerIdRequest.json``, ``InitProducerIdResponse.json``. A PRODUCE line does not
show whether its producer is idempotent; this line, on the same connection or not, does.
"""

from .bodies import Body, TypedRows, decode_request, decode_response
from .envelope import Envelope, Int16, Int64

API_KEY = 22

_request = Body(transactional_id=(str | None, None))
_response = Body(error_code=Int16, producer_id=(Int64, -1), producer_epoch=Int16)


def read(envelope: Envelope) -> TypedRows:
    """The row of one line; columns of a missing body are None."""
    request = decode_request(envelope, _request)
    response = decode_response(envelope, _response)
    transactional_id = request.transactional_id if request else None
    if response is None:
        return TypedRows(producer_id=(transactional_id, None, None, None))
    returned = (response.producer_id, response.producer_epoch, response.error_code)
    return TypedRows(producer_id=(transactional_id, *returned))
