"""Predictions of other clusters and self-checks are as good as docs/accuracy.md says, to the digit.

That page is printed by ``make docs``; figures of it that a change moves are to be looked at first.
"""

import re

import pytest
from recorded_logs import REPOSITORY

from kip_replay.pipelines.analysis.predictions import accuracy_rows
from kip_replay.pipelines.analysis.summarize import comparable_pairs, summarize
from kip_replay.pipelines.rules import RULES
from tools.accuracy import page

from .recorded import ENGINE, WAREHOUSE, alone, ingested, quiet, replayed

pytestmark = pytest.mark.golden

PAGE = (REPOSITORY / "docs" / "accuracy.md").read_text(encoding="utf-8")
_SECTION = re.compile(
    r"^### \w+: ([\w.-]+), (?:replayed as it ran|predicted from ([\w.-]+)) [^#<]*", re.MULTILINE
)
#: Of one workload each: without and with a proposal, or under other settings.
TOGETHER = (("metadata-4.0", "metadata-4.1"), ("sessions-off", "sessions-on"), ("acks-not-enough",))
SLOW = (
    ("acks-slow-follower", "acks-two-replicas"),
    ("acks-open", "acks-open-minisr"),
    ("acks-varying-open", "acks-varying-open-minisr"),
    ("racks-leader", "racks-aware"),
    *((name,) for name in ("acks-varying", "failover-4.0", "freeze-4.0", "freeze-4.1")),
    ("freeze-4.3",),
    *((name,) for name in ("metadata-3.9", "metadata-applied", "mixed-4.2", "two-fetchers")),
)


def sections(text: str, *names: str) -> list[str]:
    """Those on some recordings, held against each other."""
    found = _SECTION.finditer(text)
    return [each[0].strip() for each in found if {each[1], each[2] or each[1]} <= {*names}]


@pytest.mark.parametrize(
    "names", [*TOGETHER, *(pytest.param(names, marks=pytest.mark.slow) for names in SLOW)]
)
def test_predictions_are_as_good_as_the_page_says(names: tuple[str, ...]) -> None:
    for name in names:
        for steps in RULES:
            replayed(name, steps.name)
    pairs = comparable_pairs([ingested(name) for name in names])
    with alone(*names):
        summarize(names, ENGINE, RULES, pairs, quiet)
    assert sections(page(accuracy_rows(WAREHOUSE, names)), *names) == sections(PAGE, *names)


def test_every_recording_of_the_page_is_one_of_these() -> None:
    assert len(_SECTION.findall(PAGE)) == sum(len(sections(PAGE, *of)) for of in TOGETHER + SLOW)
