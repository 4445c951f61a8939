"""A warehouse is anonymized as a whole and with one key, or not at all.

Of what was read into it before something stays in files that no table names any more. So the first
ingest decides: one with a key marks the table ``ingested_files`` with the key's fingerprint, and
each later one must have that key, which itself is nowhere in the warehouse.
"""

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.storage import place_of
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.request_log import Pseudonyms
from kip_replay.replay.log_tables import INGESTED_FILES

ANONYMIZED_WITH = "anonymizedWith"


def require_key(warehouse: Warehouse, pseudonyms: Pseudonyms | None) -> None:
    """Raises UserError unless the warehouse is empty, or was made with this key (or without)."""
    wanted = pseudonyms.fingerprint if pseudonyms else None
    found = _fingerprint(warehouse)
    # Files of rows, also such as no table knows of (any more, or yet).
    written = place_of(warehouse.path).glob("*/recording=*")
    if wanted == found or (found is None and not any(written)):
        return
    where = f"the warehouse {warehouse.path}"
    if found is None:
        raise UserError(f"{where} holds names as they are: name an empty one with --anonymize")
    if wanted is None:
        raise UserError(
            f"{where} is anonymized: give its key with --anonymize, or name another warehouse"
        )
    raise UserError(
        f"{where} is anonymized with another key: give that one, or name another warehouse"
    )


def mark(warehouse: Warehouse, pseudonyms: Pseudonyms | None) -> None:
    """Notes with which key the warehouse, whose tables are there, is anonymized from now on."""
    if pseudonyms and _fingerprint(warehouse) is None:
        table = warehouse.open(INGESTED_FILES)
        properties = {ANONYMIZED_WITH: pseudonyms.fingerprint}
        table.alter.set_table_properties(properties, raise_if_not_exists=False)


def _fingerprint(warehouse: Warehouse) -> str | None:
    if not warehouse.exists(INGESTED_FILES):
        return None
    found = warehouse.open(INGESTED_FILES).metadata().configuration.get(ANONYMIZED_WITH)
    return None if found is None else str(found)
