"""Fingerprints of everything that rows follow from: code, configuration and input.

Rows with the fingerprint of today's code, configuration and input need not be made again; any
change of a rule, a setting or a log makes another fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache

from kip_replay.pipelines.code_archive import code_root
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import INGESTED_FILES
from pyspark.sql import functions as F

#: What outcomes and summaries follow from. How logs are read is not among it (the typed tables
#: are the input), nor how a report looks.
_MODULES = (
    "replay/*.py",
    "replay/hwm_parking/*.py",
    "replay/incremental_fetch/*.py",
    "replay/lowest_acked_offset/*.py",
    "replay/min_isr_acks/*.py",
    "replay/wire_size/*.py",
    "pipelines/accuracy.py",
    "pipelines/facts.py",
    "pipelines/hwm_parking.py",
    "pipelines/incremental_fetch.py",
    "pipelines/lowest_acked_offset.py",
    "pipelines/measures/*.py",
    "pipelines/min_isr_acks.py",
    "pipelines/phases.py",
    "pipelines/pieces.py",
    "pipelines/rules.py",
    "pipelines/seam.py",
    "pipelines/steps.py",
    "pipelines/summaries.py",
)


#: What the page follows from besides.
REPORT_MODULES = ("pipelines/report/*",)


@cache
def _code(patterns: tuple[str, ...] = _MODULES) -> str:
    """Hash of the files that rows or a page follow from."""
    root = code_root()
    digest = hashlib.blake2b(digest_size=16)
    for pattern in patterns:
        for path in sorted(path for path in root.glob(pattern) if path.is_file()):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def fingerprint(*parts: object, modules: tuple[str, ...] = _MODULES) -> str:
    """Fingerprint of the code and of ``parts`` (anything that JSON can hold)."""
    said = json.dumps([_code(modules), *parts], sort_keys=True, default=str)
    return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()


def contents(warehouse: Warehouse, recordings: Sequence[str]) -> Mapping[str, list[str]]:
    """The logs that each recording's typed tables hold: content hashes per node, sorted."""
    files = (
        warehouse.read(INGESTED_FILES)
        .where(F.col("recording").isin(list(recordings)))
        .groupBy("recording")
        .agg(F.sort_array(F.collect_set(F.concat_ws(":", "node_id", "content_hash"))).alias("h"))
    )
    return {row["recording"]: list(row["h"]) for row in files.collect()}
