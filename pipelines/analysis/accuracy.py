"""prediction_accuracy: each prediction beside what real brokers did, a baseline and a verdict.

A prediction is made from one recording under the protocol that another recording's brokers ran (or
the same recording's: a self-check), and held against what that other recording shows. What is
measured, and which errors pass, each rule states in a ``Judgement``. What is unknown is a miss: it
ranks last in percentiles, is in the denominator of shares, and a figure that is null does not pass.
A self-check leaves out what rests on lines before the log.

Kinds of rows are never added up. Where two recordings of one workload ran the same protocol, a kind
of its own has how far apart two real runs are: the noise, beside which an error is seen.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import astuple

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text, read_texts
from kip_replay.pipelines.replaying.states import Phases, phases_table
from kip_replay.pipelines.rule_files import Tolerance
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.records import SAMPLES_MIN
from kip_replay.replay.table import LONG, MS, TEXT
from kip_replay.replay.tables import PredictionAccuracy

#: Seconds: figures of a shorter steady phase say little.
SHORT_S = 10
_PAIRS = pa.schema({"predicted_from": TEXT, "recorded_in": TEXT})
_SPANS = pa.schema({"recording": TEXT, "span_s": MS})
_TOLERANCES = pa.schema(
    {"kind": TEXT, "metric": TEXT, "variant": TEXT, "absolute": MS, "relative": MS}
)
# The texts of a rule in the order in which they are run, each with the rows of those before it.
# What they read grows with a log; as many rows come back as there are figures.
_STEPS = ("wanted", "spans", "distributions", "measures", "shares")
#: What texts of rules may read, and what is made of them.
_TEXTS = read_texts(Path(__file__).with_suffix(".sql"))
#: Columns of what a rule measures, of which texts may lack some.
_MEASURES = pa.schema(
    {
        **dict.fromkeys(("recording", "variant", "metric", "group_kind", "group_value"), TEXT),
        **dict.fromkeys(("value", "baseline"), MS),
        **dict.fromkeys(("sample_count", "unknown_count"), LONG),
        "unit": TEXT,
    }
)


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
      what is known under the variant V. Without it: the percentiles that have a tolerance.
    * ``shares`` (likewise; no variant, unit and baseline): what must be 1 in a self-check.
    * ``shown``: the rows of ``side_by_side`` that are kept, with another baseline or is_judged, and
      ``scale``: what a relative tolerance is relative to, null for |recorded|.

    Metrics without a tolerance are shown and not judged.
    """

    texts: Mapping[str, Text]
    tolerances: Sequence[Tolerance]

    @classmethod
    def read(
        cls,
        texts: Mapping[str, Path | str],
        tolerances: Sequence[Tolerance],
        constants: Mapping[str, object],
    ) -> "Judgement":
        """Those of a rule's texts that judge, which may read the others, and its tolerances."""
        known = {**_TEXTS, **texts}
        if "observed" not in texts:
            del known["distributions"]
        parts = {name: text for name, text in known.items() if name not in _STEPS}
        judging = [name for name in (*_STEPS, "shown") if name in known]
        return cls(
            {name: Text.read(known[name], parts, **constants) for name in judging}, tolerances
        )


def prediction_accuracy(
    engine: Engine,
    judgements: Mapping[str, Judgement],
    phases: Phases,
    pairs: Collection[tuple[str, str]],
) -> pa.Table:
    """Rows of prediction_accuracy for pairs (predicted_from, recorded_in); judgements by rule."""
    schema = PredictionAccuracy.arrow_schema
    recordings = sorted({name for pair in pairs for name in pair})
    # What a recording's brokers ran, its self-check says.
    with_self_checks = sorted({*pairs, *((name, name) for name in recordings)})
    judged = [schema.empty_table()]
    spans = [(name, (phase.until_us - phase.from_us) / 1e6) for name, phase in phases.items()]
    # Of a rule that has no texts of its own: figures are of the steady phase.
    usual = {"phases": phases_table(phases), "spans": _arrow_table(spans, _SPANS)}
    usual["shares"] = _MEASURES.empty_table()
    for rule, judgement in judgements.items():
        texts = judgement.texts
        known = {
            **usual,
            "pairs": _arrow_table(with_self_checks, _PAIRS),
            "tolerances": _arrow_table([*map(astuple, judgement.tolerances)], _TOLERANCES),
        }
        known["wanted"] = engine.rows(texts["wanted"], recordings, known)
        if not known["wanted"].num_rows:
            continue
        for name in _STEPS[1:]:
            if name in texts:
                known[name] = engine.rows(texts[name], recordings, known)
        known["pairs"] = _arrow_table(pairs, _PAIRS)
        values = {"rule": rule, "samples_min": SAMPLES_MIN, "short_s": SHORT_S}
        text = Text.read(_TEXTS["prediction_accuracy"], {"shown": texts["shown"]}, **values)
        judged.append(engine.rows(text, recordings, known).select(schema.names).cast(schema))
    rows = pa.concat_tables(judged)
    return rows.sort_by([(name, "ascending") for name in PredictionAccuracy.key])


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
    rows = warehouse.rows(PredictionAccuracy, recordings).to_pylist()
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
