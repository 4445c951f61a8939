"""What held when logs began: an account made once for all rules, and kept in tables.

A log begins in the middle of a cluster's life. What held then often shows later: METADATA that
names an ISR tells that of the beginning, if no line between changed it. The texts say which
evidence counts, for how long after a beginning, and what refutes it.
"""

from collections.abc import Collection

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.rule_texts import HELD, NAMES_OF_TOPICS
from kip_replay.pipelines.warehouse.lineage import code_of, contents, fingerprint
from kip_replay.replay.log_tables import HELD_TABLES, INGESTED_FILES

STEP = "held"
#: How old METADATA may be: brokers apply a change within it.
_STALE_US = 2_000_000
#: broker.session.timeout.ms; a scan each eighth of it fences who was silent for longer.
_SILENCE_US = 9_000_000
_FENCED_US = _SILENCE_US + 1_125_000 + 600_000


def find_what_held(engine: Engine, recordings: Collection[str], evidence_us: int) -> None:
    """Writes what held when the logs of recordings began, where logs or this code changed.

    ``evidence_us``: how long after a beginning a line may still tell of it.
    """
    warehouse = engine.warehouse
    ingested = contents(warehouse.rows(INGESTED_FILES, recordings).to_pylist(), recordings)
    code, lineage = code_of((__name__,), tuple(map(str, HELD))), warehouse.lineage(recordings)
    wanted = {name: fingerprint(code, evidence_us, ingested[name]) for name in recordings}
    stale = {name: of for name, of in wanted.items() if lineage.get((name, STEP)) != of}
    if not stale:
        return
    values = {
        "evidence_us": evidence_us,
        "stale_us": _STALE_US,
        "silence_us": _SILENCE_US,
        "fenced_us": _FENCED_US,
    }
    texts = (Text.read(file, NAMES_OF_TOPICS, **values) for file in HELD)
    held = {
        table: engine.rows(text, list(stale)).select(table.arrow_schema.names)
        for table, text in zip(HELD_TABLES, texts, strict=True)
    }
    warehouse.replace(STEP, stale, {t: rows.cast(t.arrow_schema) for t, rows in held.items()})
