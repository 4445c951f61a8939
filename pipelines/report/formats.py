"""The report for machines, chats and terminals: what to do, without pictures."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.pages import Card, Effect, Page

#: What has a meaning in Markdown, at a place where text from logs may be.
_MARKED = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>#|~&!"})


#: What JSON has of a row of ``findings``.
_FINDING = (
    "code",
    "subject",
    "detail",
    "count",
    "population",
    "figure",
    "says",
    "action",
    "statement",
)


def as_json(pages: Sequence[Page]) -> str:
    """The pages as one JSON object, which report.schema.json describes."""
    return json.dumps({"recordings": [_page(page) for page in pages]}, indent=1) + "\n"


def _page(page: Page) -> dict[str, Any]:
    return {
        "recording": page.recording,
        "facts": [*map(_plain, page.facts)],
        "alerts": [{"text": text, "is_critical": is_critical} for text, is_critical in page.alerts],
        "rates": _plain(page.rates),
        "findings": [
            {name: row[name] for name in _FINDING} | {"says": _plain(row["says"])}
            for row in page.findings
        ],
        "accuracy": page.accuracy,
        "rules": {card.rule: _card(card) for card in page.cards},
    }


def _card(card: Card) -> dict[str, Any]:
    return {
        "kip": card.stated["kip"],
        "title": card.stated["title"],
        "released": card.stated.get("released"),
        "advice": card.decision["advice"],
        "reason": card.decision["reason"],
        "sentence": _plain(card.sentence),
        "gain": card.decision["gain"],
        "price": card.decision["price"],
        "paste": card.decision["paste"],
        "rests_on": card.decision["rests_on"],
        "facts": dict(card.decision["facts"] or ()),
        "accuracy": card.checks,
    }


def as_text(pages: Iterable[Page]) -> Iterator[str]:
    """Lines for a terminal: what to do by recording, what is gained and what it costs."""
    for page in pages:
        lines = [page.recording, *(f"  {text}" for text in page.recent)]
        lines += (f"  {'!' if is_critical else '-'} {text}" for text, is_critical in page.alerts)
        found = [page.rates, *(row["says"] for row in page.findings)]
        lines += (f"  {_plain(text)}" for text in found[:5])
        for card in page.cards:
            lines.append(f"  {card.rule}: {card.decision['advice']}. {_plain(card.sentence)}")
            lines += (f"    {line}" for line in map(_in_words, card.effects) if line)
        yield from map(words.visible, lines)


def as_markdown(pages: Iterable[Page]) -> str:
    return "\n".join(line for page in pages for line in _lines(page)) + "\n"


def _lines(page: Page) -> Iterator[str]:
    yield f"# {_text(page.recording)}"
    yield from ("", _text(", ".join(page.facts)))
    if page.alerts:
        yield ""
        yield from (f"- **{_text(text)}**" for text, _ in page.alerts)
    yield from ("", _text(_plain(page.rates)), "")
    yield from (f"- {_text(_plain(row['says']))}" for row in page.findings)
    for card in page.cards:
        title = f"{card.stated['kip']}: {card.stated['title']}"
        advice = card.decision["advice"]
        yield from ("", f"## {_text(title)}", "", f"**{advice}**: {_text(card.sentence)}", "")
        yield from (f"- {_text(line)}" for line in map(_in_words, card.effects) if line)
        if card.decision["paste"]:
            yield from ("", "```", card.decision["paste"], "```")
        if card.decision["rests_on"]:
            yield from ("", _text(f"Rests on: {'; '.join(card.decision['rests_on'])}."))
    yield from ("", _text(page.accuracy), "")


def _in_words(of: Effect) -> str:
    """'gain: Median lag: 479 ms to 2.5 ms, 477 ms less (468 to 484 ms)'; empty if not known."""
    if not of.is_known:
        return ""
    figures = ""
    if not of.is_new:
        figures = f" {of.wording(of.row['before'])} to {of.wording(of.row['after'])},"
    return _plain(f"{of.label.lower()}: {of.says}:{figures} {of.change} ({of.within})")


def _plain(text: str) -> str:
    """Text whose spaces are all of one kind."""
    return text.replace(words.SPACE, " ")


def _text(text: str) -> str:
    """Text as it is, whatever Markdown makes of its characters."""
    return words.visible(text).translate(_MARKED)
