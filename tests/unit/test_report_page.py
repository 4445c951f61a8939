"""The page: self-contained, the same bytes for the same values, and text stays text."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pipelines.report import render
from pipelines.report.data import (
    Check,
    Curve,
    Doubt,
    Figures,
    Lag,
    NodeRead,
    Protocol,
    RecordingReport,
    Rejected,
    RejectedLine,
    Report,
    SweepPoint,
    Traffic,
)
from replay.outcomes import RECORDED
from replay.rules import WITH_KIP, WITHOUT_KIP

#: Ends a script, an attribute and a picture; turns the reading direction; hides.
HOSTILE = (
    "</script></svg><img src=x onerror=\"alert('1')\">\u202egnp.exe\u200f\0 {{ 7 * 7 }} &amp; é"
)
#: The same with what would be invisible written out.
HOSTILE_AS_SHOWN = (
    HOSTILE.replace("\u202e", "\\u202e").replace("\u200f", "\\u200f").replace("\0", "\\u0000")
)


def lag(p50: float, unknown: int = 0) -> Lag:
    return Lag(100, unknown, p50, p50 * 2, p50 * 3, p50 * 4, p50 * 5, p50 * 6)


def figures(p50: float, fetches: int) -> Figures:
    traffic = Traffic(fetches, fetches * 160, fetches * 200, 0, 60.0)
    return Figures(
        lag={kind: lag(p50) for kind in ("all", "broker", "voter")},
        curve={kind: Curve(p50 / 3, ((p50, 0.5), (p50 * 6, 1.0))) for kind in ("broker", "voter")},
        traffic={"broker": traffic, "voter": traffic},
    )


def recording(name: str = "one", own: Protocol = Protocol.WITHOUT) -> RecordingReport:
    slow, fast = figures(328.2, 450), figures(1.2, 920)
    return RecordingReport(
        name=name,
        protocol=own,
        protocol_share=1.0 if own is Protocol.WITH else 0.0,
        logged_versions=("4.0.0",),
        nodes=(NodeRead(1, 1, 1000, 12, 10, 1, 1, "ab"),),
        max_wait_ms=(500, 500),
        figures={
            RECORDED: fast if own is Protocol.WITH else slow,
            WITHOUT_KIP: slow,
            WITH_KIP: fast,
        },
        sweep=(SweepPoint(100, figures(120.0, 2000), figures(1.3, 3000)),),
        metadata_fetches=900,
        judged_answers=800,
        unexplained_answers=4,
        doubts=(Doubt("advances", "steady", "unknown", "the log ended", {RECORDED: 3}),),
        rejected=(Rejected("bad_json", 1, (RejectedLine(1, "a.log", 7, "line", 4),)),),
    )


def check(name: str = "one", passed: bool = True, error: float = 0.8) -> Check:
    return Check(
        predicted_from=name,
        recorded_in=name,
        variant=WITHOUT_KIP,
        metric="high_watermark_lag_p50",
        group_kind="replica_kind",
        group_value="broker",
        unit="ms",
        baseline=250.0,
        predicted=329.0,
        recorded=328.2,
        error=error,
        tolerance=2.0,
        passed=passed,
        sample_count=627,
        unknown_count=3,
    )


def report(name: str = "one") -> Report:
    return Report((recording(name),), (check(name),))


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
    return Parsed(page).text.replace("\N{NO-BREAK SPACE}", " ")


def hostile_report() -> Report:
    rejected = Rejected(HOSTILE, 1, (RejectedLine(1, HOSTILE, 7, HOSTILE, 99),))
    doubt = Doubt("answers", None, "unknown", HOSTILE, {RECORDED: 1})
    one = replace(
        recording(HOSTILE),
        stated_version=HOSTILE,
        logged_versions=(HOSTILE,),
        rejected=(rejected,),
        doubts=(doubt,),
    )
    bad = replace(check(HOSTILE), metric=HOSTILE, unit=HOSTILE, variant=HOSTILE)
    return Report((one,), (bad,))


def harmless_report() -> Report:
    rejected = Rejected("reason", 1, (RejectedLine(1, "file", 7, "line", 99),))
    doubt = Doubt("answers", None, "unknown", "reason", {RECORDED: 1})
    one = replace(
        recording("name"),
        stated_version="4",
        logged_versions=("4",),
        rejected=(rejected,),
        doubts=(doubt,),
    )
    plain = replace(check("name"), metric="metric", unit="unit", variant="variant")
    return Report((one,), (plain,))


def test_hostile_text_comes_out_as_text() -> None:
    hostile, harmless = Parsed(render(hostile_report())), Parsed(render(harmless_report()))

    assert hostile.structure == harmless.structure
    assert hostile.texts.count(HOSTILE_AS_SHOWN) >= 4  # name, file, line and reason
    assert not any(name.startswith("on") for name, _ in hostile.values)


def test_nothing_invisible_or_reordering_reaches_the_page() -> None:
    page = render(hostile_report())

    assert not set(page) & set("\0\u202e\u200f\u2066\u2028")


def test_hostile_text_stays_text_inside_pictures() -> None:
    page = render(hostile_report())
    pictures = page.split("<svg")[1:]

    assert pictures
    for picture in pictures:
        inside = picture.split("</svg>")[0]
        assert "<img" not in inside
        assert "<script" not in inside


def test_nothing_is_loaded_from_anywhere() -> None:
    page = render(report())
    parsed = Parsed(page)

    links = [value for name, value in parsed.values if name in {"href", "src", "srcset", "data"}]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert not {tag for tag, *_ in parsed.structure} & {"script", "iframe", "object", "img"}
    assert "@import" not in page
    assert "url(" not in page
    assert "//" not in page.replace("/*", "").replace("*/", "")


def test_every_link_inside_the_page_leads_somewhere() -> None:
    parsed = Parsed(render(report()))
    ids = [value for name, value in parsed.values if name == "id"]

    assert len(ids) == len(set(ids))
    assert {v[1:] for n, v in parsed.values if n == "href" and v.startswith("#")} <= set(ids)
    described = [v for n, v in parsed.values if n == "aria-labelledby"]
    assert {one for value in described for one in value.split()} <= set(ids)


def test_elements_are_closed_in_order() -> None:
    void = {"meta", "link", "br", "img", "input", "hr"}
    open_elements: list[str] = []
    for tag, *_ in Parsed(render(report())).structure:
        if tag.startswith("/"):
            assert open_elements.pop() == tag[1:]
        elif tag not in void:
            open_elements.append(tag)
    assert open_elements == []


def test_same_values_give_the_same_bytes() -> None:
    assert render(report()) == render(report())


def test_headline_of_a_cluster_without_the_kip() -> None:
    text = text_of(render(report()))

    assert "With KIP-1166, brokers learn a committed metadata change in 1.2 ms instead" in text
    assert "brokers would learn a committed metadata change in 1.2 ms instead of 328 ms" in text
    assert "It would cost 15.7 more FETCHes a second (30.7 instead of 15.0)" in text
    assert "and 5.6 kB a second more (11.0 kB instead of 5.4 kB)" in text


def test_headline_of_a_cluster_with_the_kip() -> None:
    text = text_of(render(Report((recording(own=Protocol.WITH),))))

    assert "Thanks to KIP-1166, which this cluster runs, brokers learn" in text
    assert "It costs 15.7 more FETCHes a second" in text


def test_several_recordings_give_ranges_and_the_price_first() -> None:
    other = replace(
        recording("two"),
        figures={**recording().figures, WITH_KIP: figures(1.7, 960)},
    )
    text = text_of(render(Report((recording(), other))))

    assert "in 1.2 to 1.7 ms instead of 328 ms" in text
    assert "The price: 15.7 to 17.0 more FETCHes a second" in text


def test_without_metadata_fetches_the_page_says_so() -> None:
    text = text_of(render(Report((RecordingReport("empty", nodes=recording().nodes),))))

    assert "KIP-1166: these logs do not tell what it changes" in text
    assert "hold no FETCH of the metadata log" in text
    assert "No prediction was held against a recording." in text


def test_a_median_that_is_unknown_is_not_made_up() -> None:
    unknown = Lag(10, 90, None, None, None, None, None, 400.0)
    one = recording()
    slow = replace(one.figures[RECORDED], lag={"broker": unknown})
    text = text_of(render(Report((replace(one, figures={**one.figures, RECORDED: slow}),))))

    assert "The median lag cannot be told" in text
    assert "90 of 100 without KIP-1166" in text
    assert "brokers would learn" not in text


def test_unknown_changes_stand_beside_the_headline() -> None:
    one = recording()
    some = replace(one.figures[WITH_KIP], lag={"broker": lag(1.2, unknown=7)})
    text = text_of(render(Report((replace(one, figures={**one.figures, WITH_KIP: some}),))))

    assert "Of 0 changes without and 7 with KIP-1166 it is unknown when" in text


def test_no_difference_is_not_sold_as_one() -> None:
    one = recording()
    same = {**one.figures, WITH_KIP: one.figures[WITHOUT_KIP]}
    text = text_of(render(Report((replace(one, figures=same),))))

    assert "KIP-1166 changes little here" in text
    assert "0.0 more FETCHes a second" in text


def test_failures_are_shown_as_plainly_as_passes() -> None:
    missed = check(passed=False, error=-30.0)
    page = render(Report((recording(),), (check(), missed)))
    text = text_of(page)

    assert "1 of 2 predictions lies within tolerance; 1 does not." in text
    assert "✓ within" in text
    assert "✗ outside" in text
    assert "−30.00" in text


def test_self_checks_and_predictions_of_others_are_apart() -> None:
    crossed = replace(check("one"), recorded_in="two")
    text = text_of(render(Report((recording("one"), recording("two")), (check(), crossed))))

    assert "Self-checks A recording replayed under the protocol that it ran" in text
    assert "Predictions of other clusters One recording" in text
    assert "From one , replayed without KIP-1166, to two : 1 of 1 within tolerance" in text


def test_lines_add_up_or_the_page_says_that_they_do_not() -> None:
    text = text_of(render(report()))
    assert "12 = 10 requests + 1 rejected + 1 repeated" in text
    assert "does not hold" not in text

    lost = replace(recording(), nodes=(NodeRead(1, 1, 1000, 13, 10, 1, 1, "ab"),))
    assert "The sum does not hold" in text_of(render(Report((lost,))))


def test_sweep_is_there_only_where_one_was_run() -> None:
    assert "Waiting less or more" in text_of(render(report()))

    without = replace(recording(), sweep=())
    assert "Waiting less or more" not in text_of(render(Report((without,))))


def test_rejected_lines_have_their_reason_in_words() -> None:
    text = text_of(render(report()))

    assert "1 line : What follows 'Completed request:' is not JSON. bad_json" in text


@pytest.mark.parametrize("own", list(Protocol))
def test_every_protocol_has_a_page(own: Protocol) -> None:
    assert "<h1>" in render(Report((recording(own=own),)))


def test_a_cluster_whose_brokers_are_its_voters_is_told_of_controllers() -> None:
    one = recording()
    voters = {
        variant: Figures(
            lag={"voter": found.lag["voter"]},
            curve={"voter": found.curve["voter"]},
            traffic={"voter": found.traffic["voter"]},
        )
        for variant, found in one.figures.items()
    }
    text = text_of(render(Report((replace(one, figures=voters),))))

    assert "With KIP-1166, controllers would learn" in text
