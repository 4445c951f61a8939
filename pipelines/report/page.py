"""The page: values in, one self-contained HTML file out; the same values give the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from pipelines.report import pictures, words
from pipelines.report.data import (
    BROKERS,
    EXAMPLE_CHARACTERS,
    VOTERS,
    Check,
    Doubt,
    Figures,
    Lag,
    NodeRead,
    Protocol,
    RecordingReport,
    Rejected,
    Report,
    SweepPoint,
    Traffic,
    read_report,
)
from pipelines.warehouse import Warehouse
from replay.outcomes import RECORDED
from replay.request_log.reasons import Reason
from replay.rules import WITH_KIP, WITHOUT_KIP

#: What the file is called where nobody says otherwise: ``<warehouse>/report.html``.
REPORT_NAME = "report.html"
_TEMPLATE = "template.html.j2"
#: In tables: what is measured first, then both replays.
_VARIANTS = (RECORDED, WITHOUT_KIP, WITH_KIP)
#: CSS classes.
_CLASS = {RECORDED: "recorded", WITHOUT_KIP: "without", WITH_KIP: "with"}
_KINDS = (BROKERS, VOTERS)
#: Characters of a name inside a picture, where it cannot wrap.
_NAME_CHARACTERS = 40

View = dict[str, Any]


def write_report(
    warehouse: Warehouse,
    recordings: Sequence[str],
    path: Path,
    kafka_versions: Mapping[str, str] | None = None,
    mark: str | None = None,
) -> Path:
    """Writes the report on recordings of a warehouse to ``path`` and returns it.

    The file is there whole or not at all. ``kafka_versions``: what manifests say, by recording.
    ``mark``: a fingerprint of all that the page follows from; a page that ends with it is left.
    Raises UserError if a recording or a table is not in the warehouse.
    """
    end = "" if mark is None else f"<!-- {mark} -->\n"
    if mark is not None and path.is_file() and path.read_text(encoding="utf-8").endswith(end):
        return path
    page = render(read_report(warehouse, recordings, kafka_versions)) + end
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(page, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def render(report: Report) -> str:
    """The page as HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(_page(report))


def _shown(value: object) -> object:
    """What a {{ }} prints: logs may hold characters that would hide or reorder text."""
    if value is None:
        return words.NOT_KNOWN
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.visible(value)
    return value


def _page(report: Report) -> View:
    return {
        "title": words.title(report),
        "price": words.price(report) if len(report.recordings) > 1 else None,
        "recordings": [_recording(r, place) for place, r in enumerate(report.recordings)],
        "accuracy": _accuracy(report.checks),
        "sweeps": [_sweep(r) for r in report.recordings if r.sweep],
        "max_wait": _max_wait(report.recordings),
    }


def _max_wait(recordings: Iterable[RecordingReport]) -> str | None:
    """The recorded maxWaitMs, where all recordings agree on one."""
    waits = {wait for r in recordings for wait in r.max_wait_ms or ()}
    return f"{words.number(waits.pop())} ms" if len(waits) == 1 else None


def _recording(recording: RecordingReport, place: int) -> View:
    return {
        "name": recording.name,
        "facts": [
            fact
            for fact in (
                words.version_sentence(recording),
                words.protocol_sentence(recording),
                f"{words.seconds(recording.span_s)} of steady phase" if recording.span_s else None,
            )
            if fact
        ],
        "lag_sentence": words.lag_sentence(recording),
        "cost_sentence": words.cost_sentence(recording),
        "unknown_sentence": words.unknown_sentence(recording),
        "key_figures": _key_figures(recording),
        "sources": _sources(recording),
        "lag": _lag(recording, f"lag-{place}"),
        "cost": _cost(recording, f"cost-{place}"),
        "read": _read(recording),
    }


# --- in short ------------------------------------------------------------------------------------


class KeyFigure(NamedTuple):
    """A figure without and with the KIP."""

    name: str
    without_kip: str
    with_kip: str
    unit: str


def _key_figures(recording: RecordingReport) -> list[KeyFigure]:
    both = words.comparison(recording)
    who = words.kind_name(recording.lag_kind)
    found = []
    if both.lags is not None:
        for name, percentile in (("Median lag", "p50"), ("99th percentile", "p99")):
            slow, fast = (getattr(lag, percentile) for lag in both.lags)
            found.append(KeyFigure(f"{name}, {who}", _short(slow), _short(fast), "ms"))
    if both.fetches_per_second is not None:
        slow, fast = (words.number(rate, 1) for rate in both.fetches_per_second)
        found.append(KeyFigure("FETCHes a second", slow, fast, "/s"))
    if both.bytes_per_second is not None:
        slow, fast = _sizes(*both.bytes_per_second)
        found.append(KeyFigure("Bytes a second", slow, *fast.split(words.SPACE)))
    return found


def _short(ms: float | None) -> str:
    return (
        words.NOT_KNOWN if ms is None else words.milliseconds(ms).removesuffix(f"{words.SPACE}ms")
    )


def _sizes(one: float, other: float) -> tuple[str, str]:
    """Two sizes; the first loses its unit if the second has the same."""
    first, second = f"{words.size(one)}/s", f"{words.size(other)}/s"
    unit = words.SPACE + second.partition(words.SPACE)[2]
    return first.removesuffix(unit), second


def _sources(recording: RecordingReport) -> str:
    said = {
        Protocol.WITHOUT: "Without: recorded in this cluster. With: replayed from its logs.",
        Protocol.WITH: "With: recorded in this cluster. Without: replayed from its logs.",
    }
    return said.get(recording.protocol, "Both are replayed from the logs of this cluster.")


# --- the lag -------------------------------------------------------------------------------------


def _lag(recording: RecordingReport, name: str) -> View | None:
    kind = recording.lag_kind
    present = [(v, recording.of(v)) for v in _VARIANTS if kind in recording.of(v).lag]
    if not present:
        return None
    # Drawn last is on top: the recorded dots lie on the line that they should follow.
    lines = [
        pictures.Line(_CLASS[v], words.VARIANT_NAMES[v], f.curve[kind], f.lag[kind].p50)
        for v, f in (*present[1:], present[0])
        if kind in f.curve
    ]
    who = words.kind_name(kind)
    described = "; ".join(
        f"{words.VARIANT_NAMES[v]}: median {words.milliseconds(f.lag[kind].p50)}, "
        f"99th percentile {words.milliseconds(f.lag[kind].p99)}"
        for v, f in present
    )
    named = words.shortened(recording.name, _NAME_CHARACTERS)
    return {
        "who": who,
        "picture": pictures.distribution(
            name, lines, f"How long until {who} learn of a commit, {named}", f"{described}."
        )
        if lines
        else None,
        "rows": [_lag_row(v, f.lag[kind]) for v, f in present],
        "others": [
            {"who": words.kind_name(k), "rows": [_lag_row(v, f.lag[k]) for v, f in present]}
            for k in _KINDS
            if k != kind and all(k in f.lag for _, f in present)
        ],
    }


def _lag_row(variant: str, lag: Lag) -> View:
    figures = (lag.p50, lag.p90, lag.p99, lag.max)
    return {
        "class": _CLASS[variant],
        "figures": [words.number(ms, 1) for ms in figures],
        "count": words.number(lag.count),
        "unknown": words.number(lag.unknown),
    }


# --- the cost ------------------------------------------------------------------------------------


def _cost(recording: RecordingReport, name: str) -> View | None:
    present = [v for v in _VARIANTS if recording.of(v).traffic]
    if not present:
        return None
    traffic = {v: recording.of(v).traffic for v in present}
    kinds = [k for k in _KINDS if any(k in of for of in traffic.values())]
    rows = [_cost_row(v, recording.of(v), kinds) for v in present]
    unknown_sizes = sum(t.unknown_sizes for of in traffic.values() for t in of.values())
    named = words.shortened(recording.name, _NAME_CHARACTERS)
    return {
        "kinds": [words.kind_name(k) for k in kinds],
        "rows": rows,
        "difference": _difference(recording, kinds),
        "unknown_sizes": words.number(unknown_sizes) if unknown_sizes else None,
        "fetches_picture": _bars(
            f"{name}-fetches", traffic, kinds, "fetches", f"FETCHes a second, {named}"
        ),
        "bytes_picture": _bars(
            f"{name}-bytes", traffic, kinds, "bytes", f"Bytes a second, {named}"
        ),
    }


def _rates(traffic: Traffic | None) -> tuple[float | None, float | None]:
    if traffic is None:
        return None, None
    return traffic.fetches_per_second, traffic.bytes_per_second


def _cost_row(variant: str, figures: Figures, kinds: Sequence[str]) -> View:
    of_kinds = [_rates(figures.traffic.get(kind)) for kind in kinds]
    total = _rates(figures.total_traffic)
    return {
        "class": _CLASS[variant],
        "name": words.VARIANT_NAMES[variant],
        "fetches": [words.number(rates[0], 2) for rates in (*of_kinds, total)],
        "bytes": [words.number(rates[1]) for rates in (*of_kinds, total)],
    }


def _difference(recording: RecordingReport, kinds: Sequence[str]) -> View | None:
    """With less without, both replayed, so that nothing but the rule differs."""
    without, with_kip = recording.of(WITHOUT_KIP), recording.of(WITH_KIP)
    if not without.traffic or not with_kip.traffic:
        return None

    def less(place: int) -> list[float | None]:
        pairs = [
            (_rates(with_kip.traffic.get(k))[place], _rates(without.traffic.get(k))[place])
            for k in kinds
        ]
        pairs.append((_rates(with_kip.total_traffic)[place], _rates(without.total_traffic)[place]))
        return [None if a is None or b is None else a - b for a, b in pairs]

    return {
        "fetches": [words.signed(value, 2) for value in less(0)],
        "bytes": [words.signed(value) for value in less(1)],
    }


def _bars(
    name: str,
    traffic: Mapping[str, Mapping[str, Traffic]],
    kinds: Sequence[str],
    measure: str,
    title: str,
) -> Markup:
    place = 0 if measure == "fetches" else 1
    raw = {
        v: [(words.kind_name(k), _rates(of.get(k))[place] or 0.0) for k in kinds]
        for v, of in traffic.items()
    }
    unit, scale = ("/s", 1.0) if measure == "fetches" else _size_scale(raw.values())
    rows = [
        pictures.Bar(
            _CLASS[v],
            words.VARIANT_NAMES[v],
            tuple((part, value / scale) for part, value in parts),
        )
        for v, parts in raw.items()
    ]
    described = "; ".join(f"{bar.label}: {words.number(bar.total, 1)} {unit}" for bar in rows)
    return pictures.bars(name, rows, unit, title, f"{described}.")


def _size_scale(bars: Iterable[Sequence[tuple[str, float]]]) -> tuple[str, float]:
    longest = max((sum(value for _, value in parts) for parts in bars), default=0.0)
    for unit, scale in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if longest >= scale:
            return unit, scale
    return "B/s", 1.0


# --- the sweep -----------------------------------------------------------------------------------


def _sweep(recording: RecordingReport) -> View:
    kind = recording.lag_kind
    points = [(f"{words.number(p.max_wait_ms)} ms", p) for p in recording.sweep]
    as_recorded = SweepPoint(0, recording.of(WITHOUT_KIP), recording.of(WITH_KIP))
    waits = recording.max_wait_ms
    said = "as recorded"
    if waits:
        said = f"{words.number(waits[0])} ms, as recorded"
    if waits and waits[0] != waits[1]:
        said = f"{words.number(waits[0])} to {words.number(waits[1])} ms, as recorded"
    return {
        "name": recording.name,
        "who": words.kind_name(kind),
        "rows": [_sweep_row(name, point, kind) for name, point in [*points, (said, as_recorded)]],
    }


def _sweep_row(name: str, point: SweepPoint, kind: str) -> View:
    figures = []
    for variant in (point.without_kip, point.with_kip):
        lag = variant.lag.get(kind)
        fetches, sizes = _rates(variant.total_traffic)
        figures += [
            words.number(lag.p50 if lag else None, 1),
            words.number(lag.p99 if lag else None, 1),
            words.number(fetches, 1),
            words.number(sizes),
        ]
    return {"name": name, "figures": figures}


# --- accuracy ------------------------------------------------------------------------------------


def _accuracy(checks: Sequence[Check]) -> View:
    own = [check for check in checks if check.is_self_check]
    crossed = [check for check in checks if not check.is_self_check]
    return {
        "sentence": words.accuracy_sentence(checks),
        "baseline": words.baseline_sentence(checks),
        "own": {"sentence": words.accuracy_sentence(own), "pairs": list(_pairs(own))},
        "crossed": {"sentence": words.accuracy_sentence(crossed), "pairs": list(_pairs(crossed))},
        "any": bool(checks),
    }


def _pairs(checks: Sequence[Check]) -> Iterator[View]:
    for (before, after), found in groupby(checks, lambda c: (c.predicted_from, c.recorded_in)):
        # The order of a pair's rows is words': what matters first.
        of_pair = sorted(found, key=words.metric_rank)
        yield {
            "predicted_from": before,
            "recorded_in": after,
            "passed": words.number(sum(check.passed for check in of_pair)),
            "count": words.number(len(of_pair)),
            "variant": words.VARIANT_NAMES.get(of_pair[0].variant, of_pair[0].variant),
            "rows": [_check(check) for check in of_pair],
        }


def _check(check: Check) -> View:
    unit = check.unit
    shown = {
        name: words.in_unit(getattr(check, name), unit)
        for name in ("predicted", "recorded", "tolerance", "baseline")
    }
    error = words.in_unit(check.error, unit)
    return {
        "name": words.metric_name(check),
        "unit": words.unit_name(unit),
        **shown,
        "error": f"+{error}" if (check.error or 0) > 0 and error.strip("0.") else error,
        "band": pictures.band(check.error, check.tolerance, check.passed),
        "passed": check.passed,
        "samples": words.number(check.sample_count),
        "unknown": words.number(check.unknown_count),
    }


# --- what was read -------------------------------------------------------------------------------


def _read(recording: RecordingReport) -> View:
    lines, requests, rejected, repeated = recording.lines_read
    starts = [node.first_at for node in recording.nodes if node.first_at]
    ends = [node.last_at for node in recording.nodes if node.last_at]
    return {
        "facts": [
            ("Kafka", words.version_sentence(recording) or "version not in the logs"),
            ("KIP-1166", words.protocol_sentence(recording)),
            ("Span", _span(min(starts), max(ends)) if starts and ends else words.NOT_KNOWN),
            ("Steady phase", words.seconds(recording.span_s) if recording.span_s else "none"),
            ("Bytes read", words.size(sum(node.bytes_read for node in recording.nodes))),
            ("Contents", recording.contents),
        ],
        "lines": [words.number(value) for value in (lines, requests, rejected, repeated)],
        "balanced": lines == requests + rejected + repeated,
        "nodes": [_node(node) for node in recording.nodes],
        "rejected": [_rejected(found) for found in recording.rejected],
        "rejected_count": rejected,
        "unexplained": _unexplained(recording),
        "doubts": [_doubt(doubt) for doubt in recording.doubts],
    }


def _span(first: datetime, last: datetime) -> str:
    """'2026-11-20 20:35:58 to 20:37:12 UTC (74.2 s)'."""
    same_day = first.date() == last.date()
    until = f"{last:%H:%M:%S}" if same_day else f"{last:%Y-%m-%d %H:%M:%S}"
    length = words.seconds((last - first).total_seconds())
    return f"{first:%Y-%m-%d %H:%M:%S} to {until} UTC ({length})"


def _node(node: NodeRead) -> View:
    figures = (node.files, node.lines_read, node.requests, node.rejected, node.repeated)
    return {
        "node_id": str(node.node_id),
        "figures": [words.number(value) for value in figures],
        "first_at": f"{node.first_at:%H:%M:%S}" if node.first_at else None,
        "last_at": f"{node.last_at:%H:%M:%S}" if node.last_at else None,
    }


def _unexplained(recording: RecordingReport) -> str:
    judged, found = recording.judged_answers, recording.unexplained_answers
    if not judged:
        return "No FETCH of the metadata log was answered by a leader."
    share = words.number(100 * found / judged, 2)
    return (
        f"{words.number(found)} of {words.number(judged)} recorded answers ({share} %) "
        "are explained by no rule."
    )


def _rejected(rejected: Rejected) -> View:
    known = Reason.__members__.get(rejected.reason)
    return {
        "reason": rejected.reason,
        "sentence": known.value if known else None,
        "count": words.count(rejected.count, "line"),
        "examples": [
            {
                "node_id": str(line.node_id),
                "source_file": line.source_file,
                "line_number": words.number(line.line_number),
                "line": words.shortened(line.line, EXAMPLE_CHARACTERS),
                "bytes": words.count(line.line_bytes, "byte"),
            }
            for line in rejected.examples
        ],
    }


def _doubt(doubt: Doubt) -> View:
    what = {"answers": "answers to a FETCH", "advances": "changes, per replica"}[doubt.what]
    return {
        "what": f"{what}, {doubt.phase} phase" if doubt.phase else what,
        "verdict": doubt.verdict.replace("_", " "),
        "reason": doubt.reason,
        "counts": [
            words.number(doubt.counts[v]) if v in doubt.counts else words.NOT_KNOWN
            for v in _VARIANTS
        ],
    }
