"""The report for machines and for chats: the verdicts and tables of its pages, without pictures."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.decisions import Decision, Effect
from kip_replay.pipelines.page.view import Page, Section, Table

#: What has a meaning in Markdown, at a place where text from logs may stand.
_MARKED = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>#|~&!"})


def as_json(pages: Sequence[Page]) -> str:
    """The pages as one JSON object: ``{"pages": [page]}``.

    A page: ``recordings``, ``cluster``, ``alerts`` (``text``, ``is_critical``), ``accuracy`` and
    ``rules`` by name. A rule: ``question``, ``proposal``, ``sure``, ``rests_on`` (limits) and
    ``decisions`` by recording. A decision: ``advice`` (of ``Advice``), ``is_withdrawn``,
    ``reason``, ``gain`` and ``price`` (effects), ``paste``. An effect: ``figure``, ``unit`` (ms,
    B/s or /s) and, in it, ``before``, ``after``, ``less`` with the ends of its interval,
    ``less_low`` and ``less_high``; null without enough data.
    """
    return json.dumps({"pages": [_page(page) for page in pages]}, indent=1) + "\n"


def _page(page: Page) -> dict[str, Any]:
    rules = {
        section.prose.rule: {
            "question": section.prose.question,
            "proposal": section.prose.proposal,
            "sure": _plain(section.sure),
            "rests_on": [*map(_plain, section.limits)],
            "decisions": {name: _decision(of) for name, of in section.decisions.items()},
        }
        for section in page.sections
    }
    alerts = [{"text": alert.text, "is_critical": alert.is_critical} for alert in page.alerts]
    return {
        "recordings": [*page.recordings],
        "cluster": page.cluster,
        "alerts": alerts,
        "accuracy": page.accuracy["sentence"],
        "rules": rules,
    }


def _decision(of: Decision) -> dict[str, Any]:
    return {
        "advice": of.advice.value,
        "is_withdrawn": of.is_withdrawn,
        "reason": _plain(of.reason),
        "gain": of.gain and _effect(of.gain),
        "price": [_effect(each) for each in of.price],
        "paste": of.paste or None,
    }


def _effect(of: Effect) -> dict[str, Any]:
    low, high = of.less_within or (None, None)
    return {
        "figure": of.name,
        "unit": of.unit,
        "before": of.before,
        "after": of.after,
        "less": of.less,
        "less_low": low,
        "less_high": high,
    }


def as_text(pages: Sequence[Page]) -> Iterator[str]:
    """Lines for a terminal: what to do by recording, what is gained and what it costs."""
    for page in pages:
        for name in page.recordings:
            yield words.visible(name)
            for section in page.sections:
                of = section.decisions[name]
                yield f"  {section.prose.rule}: {of.advice.value}. {_plain(of.reason)}"
                for which, each in _effects(of):
                    yield f"    {which}: {_in_words(each)}"


def as_markdown(pages: Sequence[Page]) -> str:
    return "\n".join(line for page in pages for line in _lines(page)) + "\n"


def _lines(page: Page) -> Iterator[str]:
    yield f"# {_text(page.name)}"
    if page.cluster:
        yield from ("", _text(page.cluster))
    if page.alerts:
        yield ""
        yield from (f"- **{_text(alert.text)}**" for alert in page.alerts)
    for section in page.sections:
        yield from _section(section)
    yield from ("", _text(page.accuracy["sentence"]), "")


def _section(section: Section) -> Iterator[str]:
    yield from ("", f"## {_text(section.prose.question)}", "", _text(section.prose.proposal))
    for name, of in section.decisions.items():
        yield from ("", f"**{_text(of.advice.value)}** ({_text(name)}): {_text(of.reason)}")
        effects = [*_effects(of)]
        if effects:
            yield ""
        yield from (f"- {which}: {_text(_in_words(each))}" for which, each in effects)
        if of.paste:
            yield from ("", "```", of.paste, "```")
    if section.limits:
        yield from ("", _text(f"Rests on: {'; '.join(section.limits)}."))
    if section.table:
        yield from ("", *_table(section.table))
    yield from ("", _text(section.sure))


def _effects(of: Decision) -> Iterator[tuple[str, Effect]]:
    if of.gain is not None:
        yield "gain", of.gain
    yield from (("price", each) for each in of.price)


def _in_words(of: Effect) -> str:
    before, after = of.wording(of.before), of.wording(of.after)
    return _plain(f"{of.name} {before} to {after}: {of.change} ({of.change_within})")


def _plain(text: str) -> str:
    """Text whose spaces are all of one kind."""
    return text.replace(words.SPACE, " ")


def _table(table: Table) -> Iterator[str]:
    heads = [
        f"{head.name} {name}".strip()
        for head in table.heads
        for name in (column.rpartition("|")[0] or column for column in head.columns)
    ]
    yield f"{_text(table.caption)}:"
    yield ""
    yield f"| {' | '.join(map(_text, heads))} |"
    yield f"|{' --- |' * len(heads)}"
    for row in table.rows:
        yield f"| {' | '.join(map(_text, (row.name, *row.cells)))} |"


def _text(text: str) -> str:
    """Text as it is, whatever Markdown makes of its characters."""
    return words.visible(text).translate(_MARKED)
