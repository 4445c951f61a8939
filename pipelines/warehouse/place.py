"""Checks that a path can be a warehouse, before anything is started or written."""

import os
import re
from pathlib import Path
from tempfile import TemporaryFile

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.storage import place_of
from kip_replay.replay.tables import TABLES

#: delta-rs takes a path for a URI: it decodes %41, reads \\ as / and takes no control character.
#: Spark takes one for a pattern.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f\ud800-\udfff]|[][{}*?]")
#: A disk that takes no more takes no file of this size: a block.
_PROBE_BYTES = 1 << 12


def require_named(warehouse_path: str) -> None:
    """Raises UserError for a path or URI that would be read as another one."""
    place = place_of(warehouse_path)
    # Links stay.
    whole = os.path.abspath(place) if isinstance(place, Path) else str(place)  # noqa: PTH100
    misread = _MISREAD.search(whole)
    if misread:
        raise UserError(
            f"the warehouse {warehouse_path!r} has {misread[0]!r} in its path, which Delta "
            "Lake or Spark reads as something else: name another folder with --warehouse"
        )


def require_writable(warehouse_path: str) -> None:
    """Raises UserError unless a local warehouse, which may not be there yet, can be written to."""
    require_named(warehouse_path)
    place = place_of(warehouse_path)
    if not isinstance(place, Path):
        if not place_of(place.anchor).exists():
            raise UserError(f"there is no {place.anchor} for the warehouse: correct it, or make it")
        return
    try:
        there = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
        with TemporaryFile(dir=there) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
    except OSError as error:
        raise UserError(
            f"the warehouse {warehouse_path} cannot be written to ({error.strerror}): correct its "
            "rights, or name another folder with --warehouse"
        ) from error
    for folder in (place / name / inner for name in TABLES for inner in ("", "_delta_log")):
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise UserError(
                f"{folder} of the warehouse cannot be written to: correct its rights, or name "
                "another folder with --warehouse"
            )
