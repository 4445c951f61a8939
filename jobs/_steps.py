"""Runs steps for more than one job: the engine, their settings, and how long each took."""

import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from kip_replay.jobs._cli import Config, Job, checked, in_columns, say
from kip_replay.jobs._parser import MEASURED, SELF_CHECKS, THRESHOLD
from kip_replay.pipelines import progress
from kip_replay.pipelines.analysis.catalog import Metastore
from kip_replay.pipelines.analysis.decide import STEP as DECIDED
from kip_replay.pipelines.analysis.health import STEP as HEALTH
from kip_replay.pipelines.analysis.summarize import SUMMARIES, steps_of
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.step import STEP as INGEST
from kip_replay.pipelines.ingest.step import IngestSettings, LinesRead, ingest
from kip_replay.pipelines.quality import QualitySettings
from kip_replay.pipelines.quality.step import STEP as QUALITY
from kip_replay.pipelines.replaying.clocks import STEP as CLOCKS
from kip_replay.pipelines.replaying.increments import Options
from kip_replay.pipelines.replaying.log_gaps import HELD_STEP
from kip_replay.pipelines.replaying.log_gaps import STEP as LOG_GAPS
from kip_replay.pipelines.replaying.replay import replay
from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.marks import Row
from kip_replay.pipelines.report.page import render
from kip_replay.pipelines.rule_files import ROOT, conf_dir, of_rules
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.recordings import delete_derived, ingested_recordings
from kip_replay.pipelines.warehouse.steps import Step, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

if TYPE_CHECKING:
    from kip_replay.pipelines.engines.spark import Spark

#: Files that a report follows from, in the report's folder and the rules'.
_READ = frozenset({".py", ".j2", ".js", ".css", ".sql", ".toml"})
SUMMED, JUDGED = steps_of(RULES)
#: The page, which no lineage knows: it ends with what it follows from.
REPORT = Step(
    name="report",
    reads=tuple(TABLES.values()),
    writes=(),
    modules=("kip_replay.pipelines.report.page", "kip_replay.pipelines.report.pages"),
    files=tuple(
        file
        for file in (
            *(ROOT / "pipelines" / "report").rglob("*"),
            *(conf_dir() / "views").glob("*.sql"),
            *of_rules("*"),
        )
        if file.suffix in _READ
    ),
)
#: All steps, in their order.
STEPS: tuple[Step, ...] = (
    INGEST,
    LOG_GAPS,
    CLOCKS,
    HELD_STEP,
    *(rule.step for rule in RULES),
    SUMMED,
    JUDGED,
    HEALTH,
    QUALITY,
    DECIDED,
    REPORT,
)
#: The tables that each step writes alone; judgements are of the steps ``accuracy/...``.
TABLES_OF_STEPS = {step.name: step.writes for step in STEPS if step not in (JUDGED, REPORT)}
_REASONS = """
    SELECT recording, reason, count(*) FROM rejected_lines
    GROUP BY ALL ORDER BY recording, count(*) DESC, reason"""
#: What ``--fail-on`` looks for; a figure that no recording has is not known.
_FAILED_CHECKS = """
    SELECT metric, group_value, concat('replayed ', coalesce(predicted::VARCHAR, 'unknown'),
        ', recorded ', coalesce(recorded::VARCHAR, 'unknown'), ' in ', recording)
    FROM prediction_accuracy
    WHERE kind = 'self_check' AND tolerance IS NOT NULL AND NOT passed ORDER BY ALL"""
_BEYOND = """
    SELECT '{0}', 'all', concat(coalesce({figure} || ' ms', 'not known'), ' in ' || recording)
    FROM (VALUES (1)) LEFT JOIN latency_summary ON metric = '{0}' AND variant = '{1}'
        AND parameter = 'none' AND group_kind = 'all'
    WHERE coalesce({figure} {limit}, true) ORDER BY recording"""
#: Those that look for what is new in tables of the steps before them, by names of files.
READ_WHAT_IS_NEW = {step.name for step in (LOG_GAPS, QUALITY)} | {SUMMARIES}


def replay_options(config: Config) -> Options:
    """Each rule's section of the configuration. Raises UserError for a senseless value."""
    options = {}
    for rule in (steps.rule for steps in RULES):
        section = {name: config[rule.name][name] for name in rule.switches}
        for name, least in rule.sweeps.items():
            values = checked(config, f"{rule.name}.{name}", list[Annotated[int, Meta(ge=least)]])
            section[name] = tuple(sorted({*values}))
        for name, least in rule.numbers.items():
            section[name] = checked(config, f"{rule.name}.{name}", Annotated[int, Meta(ge=least)])
        options[rule.name] = section
    for name in ("late_after_s", "recent_minutes", "evidence_s"):
        checked(config, f"replay.{name}", Annotated[float, Meta(gt=0)])
    return options


def quality_settings(config: Config) -> QualitySettings:
    """The section of the quality checks. Raises UserError for a senseless value."""
    folders = checked(config, "quality.more_suites", tuple[str, ...])
    kept_rows = checked(config, "quality.kept_rows", Annotated[int, Meta(ge=1, le=1000)])
    data_docs, minutes = config["quality"]["data_docs"], config["replay"]["recent_minutes"]
    return QualitySettings(folders, kept_rows, data_docs, minutes)


def too_many_rejected(read: Sequence[LinesRead], config: Config) -> bool:
    """Says which recordings have too many rejected lines; whether there are any."""
    share_max = config["ingest"]["max_rejected_share"]
    above = [lines for lines in read if lines.rejected_share > share_max]
    for lines in above:
        say(
            f"warning: {lines.rejected_share:.1%} of the lines of {lines.recording} could not be "
            f"read, more than {share_max:.1%}: the table rejected_lines says why"
        )
    return bool(above)


def read_logs(
    job: Job, recordings: Sequence[Recording], engine: Engine, files: Sequence[LogFile]
) -> list[LinesRead]:
    """Reads files of recordings into the warehouse; of several, those that can be read."""
    values = {k: v for k, v in job.config["ingest"].items() if k != "max_rejected_share"}
    settings = IngestSettings(**values, final=not job.arguments.growing)
    read_of = partial(ingest, engine=engine, settings=settings, say=job.tell)
    try:
        read = read_of(recordings, listed=files)
    except UserError:
        if len(recordings) == 1:
            raise
        parts = [[recording] for recording in recordings]
        read = [lines for [lines] in job.of_each(read_of, parts)]
        recordings = [r for r in recordings if r.name in {lines.recording for lines in read}]
    _say_rejected(read, engine.warehouse)
    return read


def _say_rejected(read: Sequence[LinesRead], warehouse: Warehouse) -> None:
    """Why lines of these recordings were rejected, the most frequent reason first."""
    names = [lines.recording for lines in read if lines.rejected]
    if not names:
        return
    with warehouse.database(names) as database:
        counted = database.execute(_REASONS).fetchall()
    for name, reasons in groupby(counted, key=itemgetter(0)):
        text = ", ".join(f"{count:,} {reason}" for _, reason, count in reasons)
        say(f'rejected of {name}: {text}; kip-replay sql "FROM rejected_lines" shows them')
    for line in (line for lines in read for line in lines.unread):
        say(f"  {line}")


def replay_as_configured(
    job: Job, recordings: Sequence[Recording], engine: Engine, options: Options
) -> None:
    """Replays to the end of the logs, or with ``--growing`` as far as they are complete."""
    section, arguments = job.config["replay"], job.arguments
    late_after_s = section["late_after_s"] if arguments.growing else None
    derived = {step: tables for step, tables in TABLES_OF_STEPS.items() if step != INGEST.name}
    for recording in recordings if arguments.rebuild else ():
        delete_derived(engine.warehouse, recording.name, derived)
    how = (job.tell, section["evidence_s"], late_after_s)
    replay(recordings, engine, RULES, options, *how)


def state_versions(pages: Iterable[Row], recordings: Iterable[Recording]) -> None:
    """Puts the versions of Kafka that manifests state into pages; those without have none."""
    versions = {recording.name: recording.kafka_version for recording in recordings}
    for page in pages:
        page["facts"]["kafka_version_stated"] = versions.get(page["recording"]) or None


def pages_follow_from(warehouse: Warehouse, recent: Warehouse, *settings: object) -> dict[str, str]:
    """Fingerprints what the page of each recording follows from, of those that were decided on."""
    lineage = sorted(warehouse.lineage(ingested_recordings(warehouse)).items())
    texts: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for (name, step), text in lineage:
        texts[name].append((step, text))
        judge = step.removeprefix(f"{JUDGED.name}/")
        if judge not in (step, name):
            texts[judge].append((name, text))
    decided = [name for (name, step), _ in lineage if step == DECIDED.name]
    code, since = REPORT.code(), recent.recent
    return {n: fingerprint(code, settings, str(since.get(n)), texts[n]) for n in decided}


def is_unwelcome(pages: Sequence[Row], conditions: Sequence[str], warehouse: Warehouse) -> bool:
    """Says which of ``--fail-on`` are met, if any; adds to the summary of a GitHub Actions step."""
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(indent(render(pages, "text"), " " * 4))  # as Markdown has it, no mark-up
    met = [(it, text) for it in conditions for text in _met(it, pages, warehouse)]
    for condition, text in met:
        print(f"--fail-on {condition}: {text}", file=sys.stderr)
    return bool(met)


def _met(condition: str, pages: Sequence[Row], warehouse: Warehouse) -> list[str]:
    """Lists where a condition is met."""
    query = _FAILED_CHECKS
    if match := THRESHOLD.fullmatch(condition):
        name, figure, limit = match.groups()
        query = _BEYOND.format(*MEASURED[name], figure=figure, limit=limit)
    elif condition != SELF_CHECKS:
        rules = ((page["recording"], item) for page in pages for item in page["rules"].items())
        met = ((rule, it["kip"], name) for name, (rule, it) in rules if it["advice"] == condition)
        return [f"{rule} ({kip}) in {name}" for rule, kip, name in met]
    with warehouse.database([page["recording"] for page in pages]) as database:
        rows = database.execute(query).fetchall()
    named = ((words.named(metric), words.named(group), text) for metric, group, text in rows)
    return [f"{what}{f' ({whose})' * (whose != 'all')}: {text}" for what, whose, text in named]


def seconds_of(parts: Iterable[progress.Part]) -> str:
    """The seconds of each phase of a run, in a line."""
    took: dict[str, float] = defaultdict(float)
    for part in parts:
        took[part.phase] += part.wall_s
    phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in took.items())
    return f"seconds: {phases}, in all {sum(took.values()):.1f}"


def profile(parts: Sequence[progress.Part]) -> list[str]:
    """Lines of a table of what each part of a run took and wrote."""
    rows = [("", "wall s", "CPU s", "rows")]
    rows += [
        (f"{phase} {name}", f"{wall_s:.2f}", f"{cpu_s:.2f}", f"{written:,}")
        for phase, name, wall_s, cpu_s, written in parts
        if wall_s >= 0.005 or written
    ]
    return in_columns(rows, right=(1, 2, 3))


# --- the engine

#: From this much log on (uncompressed), Spark: a guess of where one machine's memory and cores end,
#: no measured crossing. 100 MB on two cores take 30 s and 1.0 GB locally, 49 s and 2.6 GB in Spark.
SPARK_BYTES_MIN = 1_000_000_000


def engine_of(job: Job, log_bytes: int | None = None) -> Engine:
    """The engine that ``--engine`` names; ``auto`` chooses by the logs, and says why."""
    warehouse, wanted = job.warehouse(), job.arguments.engine
    if wanted == "auto":
        wanted, why = _chosen(log_bytes or 0)
        if log_bytes is not None:
            job.tell(f"engine: {wanted} ({why}; --engine says otherwise)")
    if wanted == "local":
        local = _local(job, warehouse)
        if log_bytes is not None:
            job.tell(f"processes: {local.processes}, within {local.memory_mb:,} MB of memory")
        return local
    return _spark(job, warehouse)


def _spark(job: Job, warehouse: Warehouse) -> "Spark":
    """The engine with its settings. Raises UserError without PySpark."""
    if find_spec("pyspark") is None:
        raise UserError("Spark needs pip install 'kip-replay[spark]': or give --engine local")
    from kip_replay.pipelines.engines.spark import Spark  # pyspark is only there for this engine

    cores = checked(job.config, "spark.cores", Annotated[int, Meta(ge=0)])
    section = job.config["spark"]
    return Spark(
        warehouse,
        section["duckdb_bytes_max"],
        cores,
        bool(schema_of(job)),
        section["replay_bytes_min"],
    )


def schema_of(job: Job) -> str:
    """The schema that ``--catalog`` names, or the configuration; empty: none. Raises UserError."""
    name = str(getattr(job.arguments, "catalog", None) or job.config["spark"]["catalog"])
    if name and not re.fullmatch(r"(\w+\.)?\w+", name):
        raise UserError(f"the catalog {name!r} is no name: write SCHEMA or NAME.SCHEMA")
    return name


def metastore_of(job: Job, warehouse: Warehouse) -> Metastore:
    return Metastore(_spark(job, warehouse).session, schema_of(job), warehouse)


def registered(job: Job, warehouse: Warehouse) -> None:
    """Registers the tables and views in the catalog, and says so. Raises UserError."""
    store = metastore_of(job, warehouse)
    tables, views = store.register(read_views(job.config["findings"]))
    job.tell(f"catalog: {tables} tables and {views} views in {store.schema}")


def _local(job: Job, warehouse: Warehouse) -> Local:
    """The engine with what the settings allow it. Raises UserError for a senseless value."""
    allowed = {
        argument: checked(job.config, f"local.{name}", Annotated[int, Meta(ge=0)])
        for name, argument in (("processes", "cores"), ("memory_mb", "memory_mb"))
    }
    if vars(job.arguments).get("profile"):
        allowed["cores"] = 1
    return Local(warehouse, **{name: value for name, value in allowed.items() if value})


def _chosen(log_bytes: int) -> tuple[str, str]:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "spark", "under spark-submit"
    if "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or "MASTER" in os.environ:
        return "spark", "a master is configured"
    if "SPARK_REMOTE" in os.environ:
        return "spark", "SPARK_REMOTE names a server of Spark Connect"
    border = f"{SPARK_BYTES_MIN / 1e6:,.0f} MB"
    if log_bytes < SPARK_BYTES_MIN:
        return "local", f"{log_bytes / 1e6:,.0f} MB of logs, Spark from {border} on"
    return "spark", f"{log_bytes / 1e6:,.0f} MB of logs, {border} or more"
