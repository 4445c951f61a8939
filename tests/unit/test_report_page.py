"""The page: self-contained, the same bytes for the same values, and text stays text."""

import re
from dataclasses import replace

import pytest
from report_examples import (
    LOWEST,
    Parsed,
    acks_check,
    check,
    event,
    html,
    logs,
    lowest,
    plain,
    recording,
    report,
    report_of,
    spread,
    verdict,
)

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.page.accuracy import MOST_ROWS
from kip_replay.pipelines.page.sections import MOST_DOUBTS
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.rules.lowest_acked_offset.words import SEEN
from kip_replay.replay.outcomes import RECORDED

#: Ends a script, an attribute and a picture; turns the reading direction; hides.
HOSTILE = (
    "</script></svg><img src=x onerror=\"alert('1')\">\u202egnp.exe\u200f\0 {{ 7 * 7 }} &amp; é"
)
#: The same with what would be invisible written out.
HOSTILE_AS_SHOWN = (
    HOSTILE.replace("\u202e", "\\u202e").replace("\u200f", "\\u200f").replace("\0", "\\u0000")
)


def text_of(page: str) -> str:
    return plain(Parsed(page).text)


def report_saying(text: str) -> Report:
    """A report in which all that comes from logs, tables and manifests is this text."""
    doubts = [verdict(RECORDED, 1, text, what=text), verdict(text, 2, text, what=text)]
    counts = ("has_high_watermark", "unexplained", "incremental", "equal", "compared", "waited")
    doubts = [one | dict.fromkeys(counts, 0) for one in doubts]
    every = []
    for one in recording(text):
        rows = {**one.rows, "verdicts": [*one.rows["verdicts"], *doubts]}
        spreads, few = {**one.spreads}, spread(229.0)
        if one.NAME == "lowest_acked_offset":
            spreads = {key: of for key, of in spreads.items() if key[3] != key[2].upper()}
            for metric in ("stale_window", "read_after_write"):
                spreads[metric, text, "all", "all", None] = few
                spreads[metric, LOWEST, "api_name", text, None] = few
        if one.NAME == "incremental_fetch":
            rows["events"] = [event(text, 1)]
        every.append(replace(one, version=f"Kafka {text}", spreads=spreads, rows=rows))
    columns = ("metric", "unit", "variant", "group_kind", "group_value")
    bad = replace(check(text), **dict.fromkeys(columns, text))
    # Another beside it, and one on a page of its own.
    seen = replace(bad, rule="lowest_acked_offset", metric=SEEN, unit="ms", kind=Kind.SELF_CHECK)
    pair = acks_check(text, "other")
    made = report_of(tuple(every), recording("other"), recording("alone"), checks=(bad, seen, pair))
    read = logs(text, text, versions=[text], damage=[text])
    (rejected,) = read.rejected
    (example,) = rejected["examples"]
    lines = [{**rejected, "reason": text, "examples": [{**example, "line": text}]}]
    read = replace(read, stated_version=text, rejected=lines)
    failed = {"table_name": text, "expectation": text, "severity": "critical", "says": text}
    return replace(
        made,
        logs=[read, replace(read, recording="other"), replace(read, recording="alone")],
        failures={text: [{**failed, "recording": text, "failing_rows": 3}]},
        clusters={text: [{"recording": text, "cluster_id": text}]},
    )


def test_hostile_text_comes_out_as_visible_text() -> None:
    page = html(report_saying(HOSTILE))
    hostile, harmless = Parsed(page), Parsed(html(report_saying("x")))
    assert hostile.structure == harmless.structure
    assert hostile.texts.count(HOSTILE_AS_SHOWN) >= 10
    assert not any(name.startswith("on") for name, _ in hostile.values)
    assert not set(page) & set("\0\u202e\u200f\u2066\u2028")


def test_nothing_is_loaded_from_anywhere() -> None:
    page = html(report())
    parsed = Parsed(page)

    links = [value for name, value in parsed.values if name in {"href", "src", "srcset", "data"}]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert not {tag for tag, *_ in parsed.structure} & {"iframe", "object", "embed", "img"}
    styles = "".join(re.findall("(?s)<style>.*?</style>", page))
    assert styles
    assert "@import" not in styles
    assert "url(" not in styles
    assert "default-src 'none'" in page


@pytest.mark.parametrize("recordings", [("one",), ("one", "two", "three")])
def test_every_link_inside_the_page_leads_somewhere(recordings: tuple[str, ...]) -> None:
    checks = (check(), acks_check("one", recordings[-1]))
    parsed = Parsed(html(report_of(*map(recording, recordings), checks=checks)))
    ids = [value for name, value in parsed.values if name == "id"]
    assert len(ids) == len(set(ids))
    assert {v[1:] for n, v in parsed.values if n == "href" and v.startswith("#")} <= set(ids)
    described = [v for n, v in parsed.values if n == "aria-labelledby"]
    assert {one for value in described for one in value.split()} <= set(ids)


def test_elements_are_closed_in_order() -> None:
    void = {"meta", "link", "br", "img", "input", "hr"}
    open_elements: list[str] = []
    for tag, *_ in Parsed(html(report_saying("x"))).structure:
        if tag.startswith("/"):
            assert open_elements.pop() == tag[1:]
        elif tag not in void:
            open_elements.append(tag)
    assert open_elements == []


def test_doubts_are_capped_and_what_is_unknown_comes_first() -> None:
    many = [
        verdict(LOWEST, n + 1, f"reason {n:03}", what="writes", verdict=of)
        for n in range(MOST_DOUBTS)
        for of in ("not_applicable", "unknown")
    ]
    page = html(report_of((*recording()[:3], replace(lowest(), rows={"verdicts": many}))))
    section = page.split('id="lowest-acked-offset"')[1].split("</section>")[0]
    assert section.count('<td class="left">unknown</td>') == MOST_DOUBTS
    assert section.index("reason 019") < section.index("reason 000")
    assert f"{MOST_DOUBTS} further rows are left out here" in text_of(section)


def test_of_many_rows_those_that_missed_are_kept() -> None:
    rows = [replace(check(), group_kind="replica_id", group_value=str(n)) for n in range(60)]
    rows[57] = replace(rows[57], passed=False)
    page = html(report_of(recording(), checks=tuple(rows)))
    assert page.count("✓ within") == MOST_ROWS - 1
    assert page.count("✗ outside") == 1
    text = text_of(page)
    assert "59 of 60 within tolerance · 1 outside" in text
    assert f"{60 - MOST_ROWS} further rows are left out here" in text
