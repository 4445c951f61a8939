"""The steady phase of recordings, read from their tables, and how Spark rows are cut down to it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.intervals import BLOCKS
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.replay.phases import SteadyPhase

#: By recording; one without requests has none.
Phases: TypeAlias = Mapping[str, SteadyPhase]

_STEADY_PHASES, _LOG_SPANS = (
    Text.read(Path(__file__).with_name(f"{name}.sql")) for name in ("steady_phases", "log_spans")
)


def steady_phases(engine: Engine, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    """The steady phase of each recording that has requests (``kip_replay.replay.phases``)."""
    return _spans(engine, _STEADY_PHASES, recordings)


def log_spans(engine: Engine, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    """From the first to the last request of each recording, as if all of it were steady."""
    return _spans(engine, _LOG_SPANS, recordings)


def _spans(engine: Engine, text: Text, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    rows = engine.rows(text, recordings).sort_by("recording").to_pylist()
    return {row["recording"]: SteadyPhase(row["from_us"], row["until_us"]) for row in rows}


def with_phases(rows: DataFrame, phases: Phases) -> DataFrame:
    """Rows of recordings that have one, beside ``steady_from`` and ``steady_until``."""
    known = rows.where(F.col("recording").isin([*phases]))
    return known.withColumns(
        {
            "steady_from": F.timestamp_micros(bound_us(phases, "from_us")),
            "steady_until": F.timestamp_micros(bound_us(phases, "until_us")),
        }
    )


def bound_us(spans: Phases, name: str) -> Column:
    """The bound of this name of a row's recording: a constant in the plan and no join."""
    chosen = F.lit(None).cast("bigint")
    for recording, span in spans.items():
        chosen = F.when(F.col("recording") == recording, getattr(span, name)).otherwise(chosen)
    return chosen


def is_steady(at: str) -> Column:
    return (F.col(at) >= F.col("steady_from")) & (F.col(at) < F.col("steady_until"))


def block_of(at_us: Column, from_us: Column, until_us: Column) -> Column:
    """Which of BLOCKS equal parts of a span a time is in, from 0; the ends take what is beyond."""
    number = F.floor((at_us - from_us) * BLOCKS / (until_us - from_us))
    return F.greatest(F.lit(0), F.least(F.lit(BLOCKS - 1), number))


def steady_block(at: str) -> Column:
    """``block_of`` the steady phase, in rows of ``with_phases``."""
    micros = (F.unix_micros(name) for name in (at, "steady_from", "steady_until"))
    return block_of(*micros).alias("block")


def steady_span_s() -> Column:
    """Length of the steady phase in seconds, from integer microseconds."""
    micros = F.unix_micros("steady_until") - F.unix_micros("steady_from")
    return micros / F.lit(1e6)
