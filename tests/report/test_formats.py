"""JSON and Markdown: the verdicts of the page, whatever names logs hold."""

import json
from dataclasses import replace
from typing import Any

import mistune
from report_examples import CONFIG, Parsed, acks_check, check, logs, recording, report_of, silent

from kip_replay.pipelines.page.decisions import Decision
from kip_replay.pipelines.page.view import Page
from kip_replay.pipelines.page.words import visible
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.report.formats import as_json, as_markdown, as_text
from kip_replay.pipelines.report.pages import pages

#: What would end a cell, a line, an emphasis or a code block; a link, an image, an element.
HOSTILE = (
    "a|b\n\n# c `d` **e** _f_ ~~g~~ [h](https://i) ![j](k) <img src=x onerror=y> ]( \\| &amp; ```\n"
    "- l\n\u202e1. m\0"
)


def found(*names: str) -> list[Page]:
    """Pages of recordings that are compared, and of one alone about which nothing is known."""
    checks = (check(names[0]), *(acks_check(names[0], name) for name in names[1:]))
    made = report_of(*map(recording, names), silent("silent"), checks=checks)
    name = names[0]
    failed = {"table_name": name, "expectation": name, "severity": "critical", "says": name}
    alerted: Report = replace(
        made,
        logs=[replace(logs(name, name), stated_version=name), *made.logs[1:]],
        failures={name: [{**failed, "failing_rows": 1}]},
        clusters={name: [{"cluster_id": name}]},
    )
    return pages(alerted, CONFIG)


def effects(of: Decision) -> list[Any]:
    return [of.gain, *of.price] if of.gain else [*of.price]


def test_json_has_every_verdict_with_its_numbers() -> None:
    made = found("one", "two")
    read = json.loads(as_json(made))
    assert [*read] == ["pages"]
    assert [page["recordings"] for page in read["pages"]] == [["one", "two"], ["silent"]]
    for page, of_json in zip(made, read["pages"], strict=True):
        assert [*of_json] == ["recordings", "cluster", "alerts", "accuracy", "rules"]
        assert [*of_json["rules"]] == [section.prose.rule for section in page.sections]
        for section in page.sections:
            rule = of_json["rules"][section.prose.rule]
            assert [*rule] == ["question", "proposal", "sure", "rests_on", "decisions"]
            assert [*rule["decisions"]] == [*page.recordings]
            for name, decision in section.decisions.items():
                assert_same(rule["decisions"][name], decision)


def assert_same(read: dict[str, Any], decision: Decision) -> None:
    assert [*read] == ["advice", "is_withdrawn", "reason", "gain", "price", "paste"]
    assert read["advice"] == decision.advice.value
    assert read["is_withdrawn"] is decision.is_withdrawn
    assert read["paste"] == (decision.paste or None)
    shown = [read["gain"], *read["price"]] if read["gain"] else read["price"]
    for of_json, effect in zip(shown, effects(decision), strict=True):
        figures = {"figure": effect.name, "unit": effect.unit, "before": effect.before}
        figures |= {"after": effect.after, "less": effect.before - effect.after}
        low, high = effect.less_within or (None, None)
        assert of_json == figures | {"less_low": low, "less_high": high}


def test_json_of_any_name_is_read_back_and_has_no_number_that_json_has_not() -> None:
    def refused(name: str) -> float:
        raise AssertionError(name)

    text = as_json(found(HOSTILE))
    assert text.isascii()
    read = json.loads(text, parse_constant=refused)
    assert read["pages"][0]["recordings"] == [HOSTILE]
    assert [*read["pages"][0]["rules"]["hwm_parking"]["decisions"]] == [HOSTILE]


def parsed(markdown: str) -> Parsed:
    """What Markdown becomes."""
    plugins = ["table", "strikethrough", "url", "task_lists"]
    return Parsed(str(mistune.create_markdown(escape=False, plugins=plugins)(markdown)))


def test_hostile_names_stay_text_in_markdown() -> None:
    hostile = parsed(as_markdown(found(HOSTILE, f"{HOSTILE}2")))
    assert hostile.structure == parsed(as_markdown(found("x", "x2"))).structure
    elements = {tag for tag, *_ in hostile.structure}
    assert elements >= {"table", "pre", "h1", "h2"}
    assert not {"a", "img", "em", "del"} & elements
    assert "".join(hostile.texts).count(visible(HOSTILE)) >= 10


def test_markdown_and_terminal_say_what_the_verdicts_are() -> None:
    made = found("one", "two")
    markdown, terminal = "".join(parsed(as_markdown(made)).texts), "\n".join(as_text(made))
    for page in made:
        for section in page.sections:
            for name, decision in section.decisions.items():
                reason = decision.reason
                assert f"{decision.advice.value} ({name}): {reason}" in markdown
                plain = reason.replace("\N{NO-BREAK SPACE}", " ")
                assert f"  {section.prose.rule}: {decision.advice.value}. {plain}" in terminal
                for effect in effects(decision):
                    assert f"{effect.name} " in markdown
                assert decision.paste in markdown
    assert [line for line in terminal.splitlines() if not line.startswith(" ")] == [
        *("one", "two", "silent")
    ]
    assert next(as_text(found("\x1b[2Jone\n"))) == "\\u001b[2Jone\\u000a"
