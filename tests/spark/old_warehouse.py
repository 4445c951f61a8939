"""A warehouse that the first release made, and what tells whether anything changed in one."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).resolve().parents[1] / "data" / "warehouses" / "first-release.tar.xz"


def first_release(folder: Path) -> Path:
    """Unpacks it into a folder, which is made."""
    folder.mkdir(parents=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def contents(warehouse: Path) -> dict[str, str]:
    """Every file of the tables with a hash of its bytes."""
    return {
        str(file.relative_to(warehouse)): hashlib.blake2b(file.read_bytes()).hexdigest()
        for table in warehouse.glob("[a-z]*")
        if table.is_dir()
        for file in table.rglob("*")
        if file.is_file()
    }
