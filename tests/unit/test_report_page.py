"""The page: self-contained, the same bytes for the same values, and text stays text."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from report_examples import (
    CLASSES,
    LOWEST,
    acks_check,
    check,
    event,
    html,
    hwm,
    logs,
    lowest,
    plain,
    recording,
    report,
    report_of,
    silent,
    spread,
    verdict,
)

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.page.accuracy import MOST_ROWS
from kip_replay.pipelines.page.sections import MOST_DOUBTS
from kip_replay.pipelines.page.words import NOT_KNOWN
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
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


class Parsed(HTMLParser):
    """Elements with the names of their attributes, attribute values, and the text between."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.structure: list[tuple[str, ...]] = []
        self.values: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.structure.append((tag, *(name for name, _ in attrs)))
        self.values += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.structure.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


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


def test_every_row_of_a_table_fills_its_columns() -> None:
    """Cells and the heads of their columns, counted with what they span."""
    page = html(report_of(recording(), silent(), recording("two"), checks=(check(), acks_check())))
    for table in page.split("<table")[1:]:
        widths = set()
        for row in table.split("</table>")[0].split("<tr")[1:]:
            cells = Parsed(f"<tr{row}").values
            spans = [int(value) for name, value in cells if name == "colspan"]
            count = row.count("<td") + row.count("<th ") + row.count("<th>")
            widths.add(count - len(spans) + sum(spans))
        assert len(widths) == 1


def test_every_rule_has_its_verdict_up_front() -> None:
    page = html(report())
    first = text_of(page.split('<ul class="decisions">')[1].split("<nav")[0])
    places = [first.index(advice) for advice in ("do it", "nothing to do", "nothing to do yet")]
    assert places == sorted(places)
    assert "With Kafka 4.1 or later, brokers learn of a committed change 327 ms sooner" in first
    gain = "Gain 327 ms less (294 to 360 ms) median lag of brokers, 328 ms → 1.2 ms"
    assert gain in first
    assert page.count('<section aria-labelledby="') == len(CLASSES) + 3


def test_a_rule_that_was_not_replayed_has_no_section() -> None:
    page = html(replace(report(), figures={"hwm_parking": [hwm()]}, checks=(check(),)))
    assert 'id="hwm-parking"' in page
    assert 'id="min-isr-acks"' not in page


def test_recordings_without_anything_to_say_take_one_sentence_each() -> None:
    text = text_of(html(report_of(silent("a"), silent("b"))))
    for sentence in (
        "These logs hold no FETCH of the metadata log.",
        "These logs hold no FETCH of topic partitions.",
        "These logs hold no PRODUCE.",
        "These logs hold no metadata write.",
    ):
        assert text.count(f"a : {sentence}") == text.count(f"b : {sentence}") == 1
    # Of each recording: by rule on the first screen, below, and under accuracy.
    assert text.count("No prediction was held against a recording.") == 2 * (1 + len(CLASSES))


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


def test_failures_are_shown_as_plainly_as_passes() -> None:
    missed = check(passed=False, error=-30.0)
    text = text_of(html(report_of(recording(), checks=(check(), missed))))
    assert "1 of 2 self-checks lies within tolerance." in text
    assert "✓ within" in text
    assert "✗ outside" in text
    assert "−30.00" in text


def test_of_many_rows_those_that_missed_are_kept() -> None:
    rows = [replace(check(), group_kind="replica_id", group_value=str(n)) for n in range(60)]
    rows[57] = replace(rows[57], passed=False)
    page = html(report_of(recording(), checks=tuple(rows)))
    assert page.count("✓ within") == MOST_ROWS - 1
    assert page.count("✗ outside") == 1
    text = text_of(page)
    assert "59 of 60 within tolerance · 1 outside" in text
    assert f"{60 - MOST_ROWS} further rows are left out here" in text


def test_what_is_not_judged_counts_neither_way() -> None:
    rate = {"metric": "produces_per_second", "tolerance": None, "passed": None}
    rates = replace(acks_check("one", "one"), **rate)
    text = text_of(html(report_of(recording(), checks=(acks_check("one", "one"), rates))))
    assert "1 of 1 self-check lies within tolerance." in text
    assert "PRODUCEs a second" in text
    assert "not judged" in text


def test_self_checks_and_predictions_of_others_are_apart() -> None:
    crossed = replace(check("one"), recorded_in="two", kind=Kind.OTHER_CLUSTER)
    text = text_of(html(report_of(recording(), recording("two"), checks=(check(), crossed))))
    assert "Self-checks 1 of 1 self-check lies within tolerance. one" in text
    assert "Predictions of other clusters 1 of 1 prediction of another cluster lies" in text
    assert "From one , replayed without KIP-1166, to two : 1 of 1 within tolerance" in text


def test_each_section_says_how_sure_it_is() -> None:
    page = html(report_of(recording(), checks=(check(), acks_check("one", "one", passed=False))))
    sure = [text_of(part.split("</p>")[0]) for part in page.split("How sure is this?")[1:]]
    assert "1 of 1 self-check lies within tolerance" in sure[0]
    assert "None of its predictions was held" in sure[1]
    assert "0 of 1 self-check" in sure[2]


def test_lines_add_up_or_the_page_says_that_they_do_not() -> None:
    text = text_of(html(report()))
    assert "12 = 7 requests + 3 other + 1 rejected + 1 repeated" in text
    assert "1 line : What follows 'Completed request:' is not JSON. bad_json" in text
    assert "does not hold" not in text
    lost = replace(report(), logs=[logs(lines_read=13)])
    assert "the sum does not hold" in text_of(html(lost))


def test_clocks_are_bounded_beside_the_nodes_and_one_that_is_off_is_an_alert() -> None:
    bounds = {"recording": "one", "reference_id": 2, "is_compared": True}
    row = {"offset_earliest_ms": 4950.4, "offset_latest_ms": 5050.1, "clocks": "differ"}
    off = replace(logs(), clocks=[{**bounds, **row, "node_id": 1}])
    shown = text_of(html(replace(report(), logs=[off])))
    assert "the clock of node 1 was 4.95 to 5.05 s ahead of that of node 2" in shown
    (cells,) = (row.cells for row in off.table.rows)
    assert cells[-1] == "4.95 to 5.05 s"
    assert logs().table.rows[0].cells[-1] == NOT_KNOWN
    assert "the clock of node" not in text_of(html(report()))


def test_what_is_the_matter_with_logs_stands_before_anything_else() -> None:
    after, before = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=s) for s in (1, 2.5))
    hole = {"recording": "one", "node_id": 1, "number": 1, "evidence": "session_epoch"}
    hole |= {"lines_missing": 7, "after_at": after, "before_at": before}
    (node, *others) = logs().nodes
    damaged = [{**node, "damage": ["ends in the middle"]}, *others]
    rejected = [{"n": 3, "reason": "binary", "examples": []}]
    bad = replace(logs(), nodes=damaged, gaps=[hole], rejected=rejected)
    page = html(replace(report(), logs=[bad]))
    shown = text_of(page)
    sentences = [
        "ends in the middle",
        "could not be read",
        "7 lines or more are missing between 1970-01-01 00:00:01.000 UTC and 1970-01-01 00:00:02",
    ]
    places = [shown.index(each) for each in sentences]
    assert places == sorted(places)
    assert places[-1] < shown.index("How soon do brokers learn")
    good = replace(logs(), rejected=[])
    assert 'class="alert"' not in html(replace(report(), logs=[good]))


@pytest.mark.parametrize("own", list(Protocol))
def test_every_protocol_has_a_page(own: Protocol) -> None:
    assert "<h1>" in html(report_of(recording(own=own)))
