"""Logs with damaged numbers: a run ends in a minute, with a page, and accounts for each line."""

import gzip
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ran import ran
from small_logs import folder_of

from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles

#: A follower that freezes, a leader that changes, sessions, and acks with too few replicas.
KINDS = ("freeze-4.1", "failover-4.0", "sessions-on", "acks-not-enough")
VALUES = (2**63 - 1, -(2**31) + 1, 0)
API = re.compile(rb'"requestApiKeyName":"(\w+)"')
NUMBER = re.compile(rb'"(\w+)":\[?(-?[\d.]+)')


def damages_in(recording: str, random: Random) -> list[Any]:
    """Log, line, begin and end of a number of each field of each API, no two in a line, and what
    takes its place."""
    found = defaultdict(list)
    for log in sorted(folder_of(recording).glob("*.log.gz")):
        for at, line in enumerate(gzip.decompress(log.read_bytes()).splitlines()):
            for number in NUMBER.finditer(line):
                before = line[: number.start()]
                depth = before.count(b"{") - before.count(b"}"), b'"response":' in before
                found[API.findall(line)[0], number[1], depth].append((log, at, *number.span(2)))
    chosen = [(*random.choice(places), random.choice(VALUES)) for places in found.values()]
    return [*{one[:2]: one for one in chosen}.values()]


def fault(folder: Path, damages: list[Any]) -> object:
    """What is wrong, if anything, with a run of the logs that have other values in these places."""
    places, written = {one[:2]: one[2:] for one in damages}, 0
    for name in KINDS:
        for log in shutil.copytree(folder_of(name), folder / name).glob("*.log.gz"):
            lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
            for at, line in enumerate(lines):
                if place := places.get((folder_of(name) / log.name, at)):
                    begin, end, value = place
                    lines[at] = b"%b%d%b" % (line[:begin], value, line[end:])
            log.write_bytes(gzip.compress(b"".join(lines)))
            written += len(lines)
    options = ("--warehouse", folder / "w", "--set", "ingest.max_rejected_share=1")
    job = (sys.executable, "-m", "kip_replay.jobs.main", "run", *map(folder.joinpath, KINDS))
    # Seconds of a processor, which other work beside it does not take.
    done = ran("bash", "-c", 'ulimit -t 60; exec "$@"', "bash", *job, *options)
    if done.returncode not in (0, 3):
        return done
    files = Warehouse(folder / "w").rows(IngestedFiles, KINDS)
    counts = (files[name] for name in ("lines_read", "requests", "other", "rejected", "repeated"))
    read, *parts = (sum(count.to_pylist()) for count in counts)
    return None if written == read == sum(parts) else (written, read, parts)


@pytest.mark.slow
def test_a_run_ends_whatever_number_a_line_has(tmp_path: Path) -> None:
    random = Random(1)
    damages = [damage for recording in KINDS for damage in damages_in(recording, random)]
    wrong = fault(tmp_path / "all", damages)
    for number in range(8 if wrong else 0):
        half = damages[::2]
        damages = half if fault(tmp_path / f"{number}", half) else damages[1::2]
    assert not wrong, (damages, wrong)
