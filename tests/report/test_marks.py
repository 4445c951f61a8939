"""What a specification and its rows become."""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import made_page
from constructed import BEGIN, Row, at, row, viewed

from kip_replay.pipelines.report import marks, pages
from kip_replay.pipelines.rule_files import rule_pages
from kip_replay.replay.hwm_parking.outcomes import HighWatermarkLag
from kip_replay.replay.incremental_fetch.outcomes import Sent
from kip_replay.replay.log_tables import Produces, RejectedLines, Requests
from kip_replay.replay.table import Table
from kip_replay.replay.tables import Incidents

#: Invisible or reordering in a page.
HOSTILE = "\u202ec<\x00"


def block(mark: str, query: str, **spec: Any) -> marks.Block | None:
    with duckdb.connect() as database:
        named = {"mark": mark, "name": "n", "note": "o", "query": query, **spec}
        return marks.block(database, named, recording="r", before="acks_all")


def test_lines_are_in_the_order_of_variants() -> None:
    query = """SELECT * FROM (VALUES
        ('someday', 'p50', 8, 5), ('acks_all', 'p50', 16, 3), ('acks_all', 'p50', 0, 9.5e0),
        ('recorded', 'p99', 8, 7), ('recorded', 'p99', 16, 1), ('recorded', 'p99', 32, NULL),
        ('recorded', 'p99', 64, 0), ('acks_all', NULL, 8, NULL)
    ) AS of(line, figure, x, y)"""
    found = block("lines", query, x="slots", y="ms", x_scale="log")
    assert found
    assert found["data"] == [
        {
            "name": "recorded, 99 %",
            "style": "recorded",
            "x": [8, 16, 32, 64],
            "y": [7, 1, None, 0],
        },
        {"name": "acks=all, median", "style": "without", "x": [0, 16], "y": [9.5, 3]},
        {"name": "someday, median", "style": "other", "x": [8], "y": [5]},
    ]
    texts = ["recorded, 99 %: 0.0 to 7.0 ms", "acks=all, median: 3.0 to 9.5 ms"]
    assert found["described"] == "; ".join([*texts, "someday, median: 5.0 to 5.0 ms."])
    nowhere = "SELECT 'a' AS line, NULL AS figure, 8 AS x, 1 AS y"
    assert block("lines", nowhere, x="slots", y="ms") is None


def test_a_table_has_cells_to_sort_by_and_sentences_of_rows() -> None:
    query = """SELECT 'voter' AS kind, 1234 AS n, 0.5 AS share, NULL::INT AS none,
        TIMESTAMPTZ '2026-11-20 10:00:01Z' AS moment, repeat('w', 9999) AS client"""
    why = {"why": "{{ n | number }} of\n{{ client }}{% if none %} never{% endif %}"}
    found = block(
        "table",
        query,
        sentences=why,
        columns=["kind", "n", "share", "none", "moment", "client", "why"],
    )
    assert found
    [[kind, n, share, none, moment, client, sentence]] = found["cells"]
    assert (kind, n, share, none) == (
        ("controllers",) * 2,
        (1234, "1,234"),
        (0.5, "0.50"),
        (None, "–"),
    )
    assert moment == ("2026-11-20T10:00:01+00:00", "10:00:01")
    assert (len(client[1]), len(sentence[1]), sentence[1][:9]) == (120, 1000, "1,234 of ")
    assert found["is_text"] == [True, False, False, False, False, True, True]
    assert block("table", "SELECT 1 AS n WHERE false") is None


def test_of_rejected_lines_few_and_their_heads_are_shown() -> None:
    [spec] = [
        spec
        for section in pages.stated()["section"]
        for spec in section["show"]
        if spec["name"] == "Lines that could not be read"
    ]
    usual = {"reason": "bad_json", "node_id": 1, "source_file": "a.log", "line_bytes": 5000}
    lines = [
        row(RejectedLines, line_number=n, line_id=f"{n}", line="x" * 900, **usual)
        for n in range(10)
    ]
    with viewed({RejectedLines: lines}) as connection:
        found = marks.block(connection, spec, recording="r")
    assert found
    assert [[text for _, text in cells][1:5] for cells in found["cells"]] == [
        ["10", "1", f"a.log:{n}", "5,000"] for n in range(3)
    ]
    assert {len(cells[5][1]) for cells in found["cells"]} == {120}


# --- over time ------------------------------------------------------------------------------------


def charts(tables: Mapping[Table, Sequence[Row]], rule: str, span_s: float = 200) -> list[Any]:
    """The charts over time of a rule on a recording r of some length, with these rows."""
    long = row(Requests, node_id=1, received_at=at(0), completed_at=at(span_s))
    stated = rule_pages()[rule]
    specs = [spec for spec in stated["show"] if spec.get("x") == "UTC"]
    values = {"recording": "r", "variants": ["recorded", *stated["variants"]]}
    with viewed({**tables, Requests: [long, *tables.get(Requests, ())]}) as connection:
        return [made for spec in specs if (made := marks.block(connection, spec, **values))]


def points(line: Row) -> dict[float, float | None]:
    """Values by second, of buckets of a second."""
    return {x - 0.5 - BEGIN.timestamp(): y for x, y in zip(line["x"], line["y"], strict=True)}


def lag(second: float, lag_ms: float | None, variant: str = "with_kip_1166") -> Row:
    high_watermark = {"high_watermark": round(second * 1000), "phase": "steady"}
    replica = {"leader_id": 1, "leader_epoch": 1, "replica_id": 11, "is_voter": False}
    verdict = {"lag_ms": lag_ms, "verdict": "unknown" if lag_ms is None else "replayed"}
    named = {"rule": "hwm_parking", "variant": variant, "leader_at": at(second)}
    return row(HighWatermarkLag, **named, **high_watermark, **replica, **verdict)


def test_latencies_over_time() -> None:
    rows = [lag(1.5, 4.0), lag(1.6, 2.0), lag(4, 8.0), lag(5, None), lag(20, 6.0)]
    rows += [lag(1 + number / 20, 300.0 + number, "without_kip_1166") for number in range(10)]
    [chart] = charts({HighWatermarkLag: rows}, "hwm_parking")
    assert charts({}, "hwm_parking") == []
    assert (chart["scales"], chart["y"]) == (("time", "log"), "ms")
    # Of few values there is no 90th percentile.
    lines = chart["data"]
    names = ["without KIP-1166, median", "without KIP-1166, 90 %", "with KIP-1166, median"]
    assert [(line["name"], points(line)[1]) for line in lines] == [
        *zip(names, (304, 308, 2), strict=True)
    ]
    # What is unknown is a gap, and so is a time without an advance, unless it is short.
    known = {x: y for x, y in points(lines[-1]).items() if x < 21}
    assert known == {1: 2, 4: 8, 5: None, 9: None, 20: 6}
    assert chart["note"].endswith("90 % needs 10 values; a point is 1.0 s")


def test_rates_over_time() -> None:
    def fetch(second: float, **more: Any) -> Row:
        usual: Row = {"rule": "incremental_fetch", "variant": "full", "node_id": 11}
        usual |= {"client_kind": "follower", "dequeued_at": at(second)}
        usual |= {"request_bytes": 60, "response_bytes": 150, "record_bytes": 100}
        return row(Sent, **(usual | more))

    unknown = {"verdict": "unknown", "request_bytes": None, "response_bytes": None}
    rows = [fetch(1), fetch(1.2, client_kind="consumer"), fetch(3), fetch(3, **unknown)]
    [chart] = charts({Sent: rows}, "incremental_fetch")
    [line] = chart["data"]
    assert len(line["x"]) == 201
    assert [*points(line).values()][:5] == [0, 220, 0, None, 0]


def test_percentiles_over_time_are_of_a_hundred_values_or_wider() -> None:
    [spec] = [it for it in pages.stated()["picture"] if it["mark"] == "lines"]

    def requests(each: int, api_name: str, number: int) -> list[Row]:
        usual: Row = {
            "node_id": 1,
            "api_name": api_name,
            "remote_ms": 500.0 * (api_name == "FETCH"),
        }
        return [
            row(
                Requests,
                received_at=at(n / each),
                completed_at=at(200),
                total_ms=501.0 + n,
                **usual,
            )
            for n in range(number)
        ]

    fetches, produces = requests(100, "FETCH", 400), requests(25, "PRODUCE", 200)
    acked = [row(Produces, request_id=it["request_id"], node_id=1, acks=-1) for it in produces]
    with viewed({Requests: fetches + produces, Produces: acked}) as connection:
        chart = marks.block(connection, spec, recording="r")
    assert chart
    rate, produce, fetch = chart["data"]
    assert [*points(rate).values()][:5] == [125, 125, 125, 125, 25]
    assert [it.get("right") for it in chart["data"]] == [None, True, True]
    # 100 of each second; of 25 a second, those of four seconds.
    assert {x: y for x, y in points(fetch).items() if y} == {0: 99, 1: 199, 2: 299, 3: 399}
    assert {x: y for x, y in points(produce).items() if y} == dict.fromkeys(range(4), 599) | (
        dict.fromkeys(range(4, 8), 699)
    )


def test_bars_are_shares_of_the_longest_and_a_silent_node_is_a_hole() -> None:
    _, bars, strip = made_page.page()["pictures"]
    known, unknown = bars["bars"]
    assert (known["figure"], unknown["figure"], unknown["cells"]) == ("4.0 MB", "9 requests", [])
    sizes = [(cell["style"], cell["width"], cell["title"]) for cell in known["cells"]]
    assert sizes == [("sent", "100", "sent 4.0 MB"), ("wished", "25", "wished wait 1.0 MB")]
    first, second = strip["bars"]
    styles = [cell["style"] for cell in first["cells"]]
    assert styles == ["rate"] * 20 + ["none"] * 40
    assert {cell["style"] for cell in second["cells"]} == {"none"}
    assert first["cells"][20]["title"] == "from 2026-11-22 16:06:40: 0.0 /s"
    assert (first["figure"], strip["note"]) == ("0.7 /s", "a cell is 20.0 s")


def test_incidents_are_bands_with_words_and_bounded() -> None:
    named = {"kind": "offline_partitions", "begin_at": at(1), "subjects": [HOSTILE, "b-1", "b-2"]}
    long = [row(Incidents, number=n, is_planned=n > 9, worst_s=n, **named) for n in range(1, 200)]
    with viewed({Incidents: long}) as connection:
        found = marks.rows(connection, pages.stated()["rows"]["bands"])
    assert len(found) == 100
    assert sum(not it["is_planned"] for it in found) == 9
    begin, end, is_planned, text = pages.band(found[0])
    assert (begin, end, is_planned) == (at(1).timestamp(), None, False)
    assert text == r"offline partitions: \u202ec<\u0000, b-1, …, 00:00:01 until after these logs"
    until = pages.band(found[0] | {"end_at": at(9), "subjects": None, "is_planned": True})
    assert until[1:] == (
        at(9).timestamp(),
        True,
        "offline partitions, planned, 00:00:01 to 00:00:09",
    )
