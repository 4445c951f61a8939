"""prediction_accuracy: each prediction beside what real brokers did, a baseline and a verdict.

A prediction is made from one recording under the protocol that another recording's brokers ran (or
the same recording's: a self-check), and held against what that other recording shows. What is
measured, and which errors pass, each rule states in a ``Judgement``. What is unknown is a miss: it
ranks last in percentiles, is in the denominator of shares, and a figure that is null does not pass.
A self-check leaves out what rests on lines before the log.

Kinds of rows are never added up. Where two recordings of one workload ran the same protocol, a kind
of its own has how far apart two real runs are: the noise, beside which an error is seen.
"""

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.phases import Phases, phases_table
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import MS, TEXT
from kip_replay.replay.tables import PREDICTION_ACCURACY

#: Figures of fewer values, or of a shorter steady phase, say little.
SAMPLES_MIN, SHORT_S = 30, 10


class Kind(StrEnum):
    """Names the kinds of rows of prediction_accuracy."""

    OTHER_CLUSTER = "other_cluster"
    SELF_CHECK = "self_check"
    BOUND = "bound"
    DRAFT = "draft"
    TWO_RUNS = "two_runs"


class Tolerance(NamedTuple):
    """The largest |error| that passes: absolute in the metric's unit, relative, or the larger.

    ``variant``: None for any. A relative one is of |recorded|, or of the row's ``scale``.
    """

    kind: Kind
    metric: str
    variant: str | None = None
    absolute: float | None = None
    relative: float | None = None


_PAIRS = pa.schema({"predicted_from": TEXT, "recorded_in": TEXT})
_TOLERANCES = pa.schema(
    {"kind": TEXT, "metric": TEXT, "variant": TEXT, "absolute": MS, "relative": MS}
)
# The texts of a rule in the order in which they are run, each with the rows of those before it.
# What they read grows with a log; as many rows come back as there are figures.
_STEPS = ("wanted", "spans", "distributions", "measures", "shares")
_FOLDER = Path(__file__).parent
_PARTS = {name: _FOLDER / f"{name}.sql" for name in ("percentiles", "side_by_side")}
_NO_FIGURES = (
    "'' AS metric, '' AS group_kind, '' AS group_value, 0 AS value, 0 AS sample_count, "
    "0 AS unknown_count FROM phases WHERE FALSE"
)
_DEFAULTS = {
    "spans": Text("SELECT recording, (until_us - from_us) / 1e6 AS span_s FROM phases"),
    "measures": Text(
        f"SELECT recording, '' AS variant, '' AS unit, 0 AS baseline, {_NO_FIGURES}",
    ),
    "shares": Text(f"SELECT recording, {_NO_FIGURES}"),
    "shown": Text(
        "SELECT *, NULL AS scale FROM side_by_side",
        {"side_by_side": Text.read(_PARTS["side_by_side"])},
    ),
}


@dataclass(frozen=True)
class Judgement:
    """Judges a rule's predictions: texts by name, and what the project demands.

    Beside tables of the warehouse they read ``phases`` (recording, from_us, until_us), and the rows
    of those before them.

    * ``wanted`` (predicted_from, recorded_in, own_variant, is_judged): those of ``pairs`` that show
      something. own_variant is what to predict, the protocol that recorded_in's brokers ran:
      ``known/V`` where measures have what a log that begins later can decide of V.
    * ``spans`` (recording, span_s): the time that figures are of, if not the steady phase.
    * ``observed`` (recording, variant, metric, group_value, value): integers that
      ``distributions`` are of.
    * ``measures`` (recording, variant, metric, group_kind, group_value, unit, value, baseline,
      sample_count, unknown_count), which may read ``percentiles`` of latency_summary: no sweeps,
      which no recording shows; what brokers did is the variant "recorded", and "recorded/V" of
      what is known under the variant V.
    * ``shares`` (likewise; no variant, unit and baseline): what must be 1 in a self-check.
    * ``shown``: the rows of ``side_by_side`` that are kept, with another baseline or is_judged, and
      ``scale``: what a relative tolerance is relative to, null for |recorded|.

    Metrics without a tolerance are shown and not judged.
    """

    texts: Mapping[str, Text]
    tolerances: Sequence[Tolerance]

    @classmethod
    def read(cls, constants: Mapping[str, object], *folders: Path) -> "Judgement":
        """Reads a text a file, and tolerances by kind; of the same name the last folder counts."""
        files = {file.stem: file for folder in folders for file in folder.glob("*.sql")}
        if "observed" in files:
            files["distributions"] = _FOLDER / "distributions.sql"
        parts = {name: file for name, file in files.items() if name not in _STEPS}
        parts |= _PARTS
        values = {**constants, "samples_min": SAMPLES_MIN}
        texts = {name: Text.read(file, parts, **values) for name, file in files.items()}
        stated = tomllib.loads((folders[-1] / "judgement.toml").read_text(encoding="utf-8"))
        return cls(texts, [*_tolerances(stated)])


def _tolerances(stated: Mapping[str, Any]) -> Iterator[Tolerance]:
    """Limits are of all variants, or by variant."""
    for kind in Kind:
        for metric, limits in stated.get(kind, {}).items():
            is_of_all = limits.keys() <= {"absolute", "relative"}
            for variant, limit in ({None: limits} if is_of_all else limits).items():
                yield Tolerance(kind, metric, variant, **limit)


def prediction_accuracy(
    engine: Engine,
    judgements: Mapping[str, Judgement],
    phases: Phases,
    pairs: Collection[tuple[str, str]],
) -> pa.Table:
    """Rows of prediction_accuracy for pairs (predicted_from, recorded_in); judgements by rule."""
    schema, file = PREDICTION_ACCURACY.arrow_schema, _FOLDER / "prediction_accuracy.sql"
    recordings = sorted({name for pair in pairs for name in pair})
    # What a recording's brokers ran, its self-check says.
    with_self_checks = sorted({*pairs, *((name, name) for name in recordings)})
    found = [schema.empty_table()]
    for rule, judgement in judgements.items():
        texts = _DEFAULTS | {**judgement.texts}
        known = {
            "phases": phases_table(phases),
            "pairs": _arrow_table(with_self_checks, _PAIRS),
            "tolerances": _arrow_table(judgement.tolerances, _TOLERANCES),
        }
        for name in _STEPS:
            if name in texts:
                known[name] = engine.rows(texts[name], recordings, known)
        known["pairs"] = _arrow_table(pairs, _PAIRS)
        values = {"rule": rule, "samples_min": SAMPLES_MIN, "short_s": SHORT_S}
        text = Text.read(file, {"shown": texts["shown"]}, **values)
        found.append(engine.rows(text, recordings, known).select(schema.names).cast(schema))
    rows = pa.concat_tables(found)
    return rows.sort_by([(name, "ascending") for name in PREDICTION_ACCURACY.key])


def _arrow_table(rows: Collection[Sequence[object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
    )


_ORDER = ("rule", "predicted_from", "recorded_in", "variant", "metric", "group_kind", "group_value")


def accuracy_rows(
    warehouse: Warehouse, recordings: Sequence[str], recorded_in: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of prediction_accuracy of some recordings, judged by each other or by ``recorded_in``.

    By rule, then pair. Small by nature.
    """
    judges = recordings if recorded_in is None else recorded_in
    rows = warehouse.rows(PREDICTION_ACCURACY, recordings).to_pylist()
    return in_order(row for row in rows if row["recorded_in"] in judges)


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts rows by rule, then pair."""
    return sorted(rows, key=itemgetter(*_ORDER))


def measure_name(row: Mapping[str, Any]) -> str:
    """Names what a row of prediction_accuracy measures: metric, group, unit."""
    group = "" if row["group_value"] == "all" else f" {row['group_value']}"
    unit = "" if row["unit"] in ("count", "share") else f", {row['unit']}"
    return f"{row['metric']}{group}{unit}"


def figure(value: float | None) -> str:
    """A number in four digits; none as a dash."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) and abs(value) >= 10 else f"{value:.4g}"
