"""The generators against lines that brokers wrote, of every API and version."""

from __future__ import annotations

import gzip
import json

from recorded_logs import REPOSITORY

from .log4j import LAYOUTS, event, written
from .wrappers import WRAPPERS

LOG = REPOSITORY / "tests" / "data" / "request_log" / "lines.log.gz"
LINES = gzip.decompress(LOG.read_bytes()).splitlines()
# Synthetic: a deprecated version's request is logged as INFO.
LINES += [line.replace(b"] DEBUG ", b"] INFO ", 1) for line in LINES[:9]]


def test_log4j_writes_what_brokers_wrote_and_its_templates_cut_long_messages() -> None:
    events = [event(line, "Europe/Berlin") for line in LINES]
    logs = written(events, ["kafka", "ecs"], "Europe/Berlin")
    assert logs["kafka"].splitlines() == LINES
    kept = LAYOUTS["ecs"].longest
    cut = [e.message[:kept] + "…" * (len(e.message) > kept) for e in events]
    assert [json.loads(row)["message"] for row in logs["ecs"].splitlines()] == cut


def test_the_parts_that_docker_splits_lines_into_are_the_lines() -> None:
    rows = WRAPPERS["docker-json"].wrapped(LINES, list(range(len(LINES)))).splitlines()
    assert len(rows) > len(LINES)
    assert "".join(json.loads(row)["log"] for row in rows).encode().splitlines() == LINES
