"""Prints into docs/tutorial.md how many bytes a line of the request log takes, by API.

python -m tools.line_sizes RECORDING...
"""

import gzip
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from tools.printed import DOCS, fill

_API = re.compile(rb'"requestApiKeyName":"(\w+)"')
#: What each partition has once in a request, and once in a response.
_REQUESTED, _RETURNED = b'"partitionMaxBytes":', b'"lastStableOffset":'
#: APIs that make most lines.
_APIS = ("PRODUCE", "METADATA", "BROKER_HEARTBEAT")
#: With few partitions, with many and sessions, with many and none.
_BROKERS_OF = ("acks-two-replicas", "sessions-on", "sessions-off")


class Line(NamedTuple):
    """A line of a log; partitions as a FETCH lists them."""

    api: str
    size: int
    requested: int
    returned: int


def lines_of(log: Path) -> Iterator[Line]:
    with gzip.open(log) as opened:
        for line in opened:
            if found := _API.search(line):
                listed = line.count(_REQUESTED), line.count(_RETURNED)
                yield Line(found[1].decode(), len(line), *listed)


def table(recordings: Iterable[Path]) -> Iterator[str]:
    """Mean sizes by API, of FETCHes by how many partitions they list, and of whole logs."""
    logs = {log: [*lines_of(log)] for one in recordings for log in sorted(one.glob("*.log.gz"))}
    lines = [line for of in logs.values() for line in of]
    yield "| line | bytes |"
    yield "|---|--:|"
    for api in _APIS:
        yield f"| {api} | {_mean(line for line in lines if line.api == api):,} |"
    fetches = [line for line in lines if line.api == "FETCH"]
    both = Counter((line.requested, line.returned) for line in fetches)
    for requested, returned in sorted([*dict(both.most_common(4)), max(both)]):
        of = [line for line in fetches if line[2:] == (requested, returned)]
        yield f"| FETCH, {requested} partitions requested, {returned} returned | {_mean(of):,} |"
    for name in _BROKERS_OF:
        of = [line for log, of in logs.items() for line in of if log.match(f"{name}/broker*")]
        yield f"| brokers of {name}, all lines | {_mean(of):,} |"
    size = sum(line.size for line in lines)
    packed = sum(log.stat().st_size for log in logs)
    yield f"\nMeans of {len(lines):,} lines; `gzip` makes {size / packed:.0f} times less of them."


def _mean(lines: Iterable[Line]) -> int:
    return round(mean(line.size for line in lines))


if __name__ == "__main__":
    fill(DOCS / "tutorial.md", "\n".join(table(map(Path, sys.argv[1:]))))
