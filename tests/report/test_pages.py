"""Pages: who shares one, what is the matter with logs, and which verdicts are withdrawn for it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_examples import (
    CLASSES,
    CONFIG,
    Parsed,
    acks_check,
    check,
    html,
    logs,
    recording,
    report_of,
    silent,
    verdict,
)

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.page.decisions import Advice, Decision
from kip_replay.pipelines.page.values import RuleFigures
from kip_replay.pipelines.page.view import Page
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.report.formats import as_json, as_markdown, as_text
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.report.pages import MOST_ALERTS, pages
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.replay.log_gaps import LOG_GAP
from kip_replay.replay.other_clocks import CLOCKS_DIFFER

#: Names of which none is part of another, nor of a word.
NAMES = ("rec-alpha", "rec-bravo", "rec-charlie", "rec-delta", "rec-echo")
RULES = [kind.NAME for kind in CLASSES]


def of(name: str) -> tuple[RuleFigures, ...]:
    """A recording; each name's differs."""
    if name == "rec-delta":
        return silent(name)
    own = (*Protocol,)[NAMES.index(name) % 3]
    return recording(name, own)


def reported(names: Sequence[str], pairs: Sequence[tuple[str, str]] = ()) -> Report:
    checks = [replace(check(name), recorded_in=name) for name in names]
    crossed = [replace(acks_check(*pair), kind=Kind.OTHER_CLUSTER) for pair in pairs]
    clusters = {name: [{"recording": name, "cluster_id": f"id of {name}"}] for name in names}
    read = [logs(name, f"{name}.log") for name in names]
    made = report_of(*map(of, names), checks=(*checks, *crossed))
    return replace(made, logs=read, clusters=clusters)


def decisions_of(found: Sequence[Page]) -> dict[tuple[str, str], Decision]:
    return {
        (section.prose.rule, name): decision
        for page in found
        for section in page.sections
        for name, decision in section.decisions.items()
    }


SUBSETS = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


@st.composite
def subsets_and_pairs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    names = draw(SUBSETS)
    pair = st.tuples(st.sampled_from(names), st.sampled_from(names))
    return names, draw(st.lists(pair, max_size=4))


@given(subsets_and_pairs())
def test_what_is_compared_stands_together_and_nothing_else(
    drawn: tuple[list[str], list[tuple[str, str]]],
) -> None:
    names, pairs = drawn
    groups = reported(names, pairs).compared
    place = {name: number for number, group in enumerate(groups) for name in group}
    assert sorted(name for group in groups for name in group) == sorted(names)
    # In the order of the report, within a page and by the first of each.
    assert all(group == sorted(group, key=names.index) for group in groups)
    firsts = [names.index(group[0]) for group in groups]
    assert firsts == sorted(firsts)
    # As reachable by pairs, one after the other.
    reach = {name: {name} for name in names}
    for _ in names:
        for one, other in pairs:
            shared = reach[one] | reach[other]
            for name in shared:
                reach[name] = reach[name] | shared
    assert {name: set(groups[place[name]]) for name in names} == reach


@cache
def alone(name: str) -> dict[tuple[str, str], Decision]:
    return decisions_of(pages(reported([name]), CONFIG))


@settings(max_examples=20)
@given(SUBSETS)
def test_a_verdict_does_not_depend_on_what_is_reported_beside_it(names: list[str]) -> None:
    expected = {key: decision for name in names for key, decision in alone(name).items()}
    assert decisions_of(pages(reported(names), CONFIG)) == expected
    together = reported(names, [*pairwise(names)])
    assert len(together.compared) == 1
    assert decisions_of(pages(together, CONFIG)) == expected


def test_no_sentence_of_a_page_is_about_a_recording_of_another() -> None:
    report = reported(NAMES, [("rec-alpha", "rec-echo")])
    cut = [replace(one, gaps=[hole(one.recording)]) for one in report.logs]
    report = replace(report, logs=cut)
    found = pages(report, CONFIG)
    assert [[*page.recordings] for page in found] == [
        ["rec-alpha", "rec-echo"],
        *([name] for name in NAMES[1:4]),
    ]
    every_json = json.loads(as_json(found))["pages"]
    parts = map(Parsed, html(report).split('<section class="page"')[1:])
    every_html = [str((part.texts, part.values)) for part in parts]
    assert len(every_json) == len(every_html) == len(found) == 4
    for page, of_json, of_html in zip(found, every_json, every_html, strict=True):
        texts = str(of_json), of_html, as_markdown([page]), "\n".join(as_text([page]))
        for text in texts:
            assert [name for name in NAMES if name in text] == [*page.recordings]


# --- what is the matter with logs ----------------------------------------------------------------

AT = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)


def hole(name: str = "one", node: int = 1, **more: Any) -> dict[str, Any]:
    found = {"recording": name, "node_id": node, "number": 1, "evidence": "session_epoch"}
    times = {"after_at": AT, "before_at": AT + timedelta(seconds=2)}
    return found | times | {"lines_missing": 20} | more


def failure(table: str, severity: str = "critical", rows: int = 3) -> dict[str, Any]:
    named = {"recording": "one", "table_name": table, "severity": severity}
    return named | {"expectation": "no_hole", "failing_rows": rows, "says": "there is none"}


def damaged(rule: str, reason: str, share: float) -> Report:
    """A report in which a share of a rule's outcomes is unknown for this reason."""
    none = dict.fromkeys(("has_high_watermark", "unexplained", "incremental", "equal"), 0)
    none |= {"compared": 0, "waited": 0}
    unknown = round(1000 * share)

    def with_doubts(one: RuleFigures) -> RuleFigures:
        if rule != one.NAME:
            return one
        variant = one.rows["verdicts"][0]["variant"]
        every = [row for row in one.rows["verdicts"] if row["variant"] != variant]
        (kept, *_) = (row for row in one.rows["verdicts"] if row["variant"] == variant)
        doubt = verdict(variant, unknown, reason, **none) | {"what": kept["what"]}
        rows = [*every, {**kept, "n": 1000 - unknown}, doubt]
        return replace(one, rows={**one.rows, "verdicts": rows})

    return report_of(tuple(map(with_doubts, recording())))


def withdrawn(report: Report, config: Mapping[str, Any] = CONFIG) -> set[str]:
    (page,) = pages(report, config)
    return {rule for (rule, _), found in decisions_of([page]).items() if found.is_withdrawn}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("reason", [LOG_GAP, CLOCKS_DIFFER])
def test_a_verdict_that_rests_on_damage_is_withdrawn(rule: str, reason: str) -> None:
    report = damaged(rule, reason, 0.011)
    assert withdrawn(report) == {rule}
    (page,) = pages(report, CONFIG)
    (section,) = (section for section in page.sections if section.prose.rule == rule)
    found = section.decisions["one"]
    assert (found.advice, found.gain, found.price, found.paste) == (Advice.NOT_ENOUGH, None, (), "")
    assert found.reason.startswith("Withdrawn: 1.1 % of its outcomes")
    assert f"“{section.prose.short}”" in page.alerts[-1].text
    assert page.alerts[-1].is_critical


@pytest.mark.parametrize("rule", RULES)
def test_a_little_damage_withdraws_nothing_unless_it_is_to(rule: str) -> None:
    report = damaged(rule, LOG_GAP, 0.01)
    assert withdrawn(report) == set()
    assert withdrawn(report, CONFIG | {"report": {"damaged_share_max": 0.009}}) == {rule}
    assert withdrawn(damaged(rule, "the log ended", 0.5)) == set()


@pytest.mark.parametrize(
    ("table", "rules"),
    [
        ("requests", {*RULES}),
        ("high_watermark_lag", {"hwm_parking"}),
        ("fetch_session_outcomes", {"incremental_fetch"}),
        ("prediction_accuracy", set()),
    ],
)
def test_a_critical_check_withdraws_what_rests_on_its_table(table: str, rules: set[str]) -> None:
    report = replace(report_of(recording()), failures={"one": [failure(table)]})
    assert withdrawn(report) == rules
    mild = replace(report, failures={"one": [failure(table, "warning")]})
    assert withdrawn(mild) == set()
    # That lines are missing has a sentence anyway, and outcomes that are unknown for it.
    worded = failure(table) | {"expectation": "log_has_no_hole"}
    assert withdrawn(replace(report, failures={"one": [worded]})) == set()


@pytest.mark.parametrize(
    ("damage", "gaps", "rules"),
    [
        ({11: ["ends in the middle"]}, [], {"incremental_fetch"}),
        ({1: ["ends in the middle"]}, [], {"hwm_parking"}),
        ({}, [12], {"incremental_fetch"}),
        ({}, [2], set()),
        ({}, [], set()),
    ],
)
def test_rates_are_withdrawn_where_a_log_that_adds_to_them_is_not_whole(
    damage: dict[int, list[str]], gaps: list[int], rules: set[str]
) -> None:
    summed = [("hwm_parking", 1), ("incremental_fetch", 11)]
    nodes = [{**logs().nodes[0], "node_id": node, "damage": of} for node, of in damage.items()]
    read = Logs("one", nodes=nodes, gaps=[hole(node=node, evidence="no_log") for node in gaps])
    report = replace(
        report_of(recording()),
        logs=[read],
        summed={"one": [{"rule": rule, "node_id": node} for rule, node in summed]},
        brokers={"one": [{"broker_id": node} for node in (11, 12)]},
    )
    assert withdrawn(report) == rules


def test_many_alerts_are_counted_and_what_is_withdrawn_is_always_named() -> None:
    failures = [failure("requests") | {"expectation": f"no {n}"} for n in range(MOST_ALERTS + 7)]
    report = replace(report_of(recording()), failures={"one": failures})
    report = replace(report, logs=[replace(logs(), rejected=[])])
    (page,) = pages(report, CONFIG)
    assert len(page.alerts) == MOST_ALERTS + 2
    assert page.alerts[-2].text == "7 more of recording 'one'"
    assert page.alerts[-1].text.startswith("recording 'one': this withdraws the verdict")


def test_damage_of_one_recording_withdraws_nothing_of_another() -> None:
    bad, good = damaged("hwm_parking", LOG_GAP, 0.5), report_of(recording("two"))
    both = {rule: [*bad.figures[rule], *good.figures[rule]] for rule in RULES}
    for checks in ((), (acks_check("one", "two"),)):
        found = decisions_of(pages(Report([*bad.logs, *good.logs], both, checks), CONFIG))
        assert [key for key, of in found.items() if of.is_withdrawn] == [("hwm_parking", "one")]
