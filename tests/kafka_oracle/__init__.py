"""Histories that a seed drew, with what Kafka's own classes made of them (``make oracle``)."""

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("ORACLE_FOLDER") or Path(__file__).parent)


@cache
def histories(kind: str) -> list[Any]:
    lines = gzip.decompress((FOLDER / f"{kind}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]
