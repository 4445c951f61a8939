"""The whole way: ingest, replay, summarize, check, report."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import (
    TABLES_OF_STEPS,
    Stopwatch,
    engine_of,
    is_unwelcome,
    kafka_versions_of,
    quality_settings,
    read_logs,
    registered,
    replay_as_configured,
    replay_options,
    report_fingerprint,
    schema_of,
    too_many_rejected,
)
from kip_replay.pipelines.analysis.accuracy import accuracy_rows
from kip_replay.pipelines.analysis.decide import STEP as DECIDED
from kip_replay.pipelines.analysis.decide import decide
from kip_replay.pipelines.analysis.find_incidents import find_incidents
from kip_replay.pipelines.analysis.summarize import comparable_pairs, summarize
from kip_replay.pipelines.ingest.log_files import LogFile, find_log_files, log_bytes_of
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.step import LinesRead
from kip_replay.pipelines.quality import check, summary
from kip_replay.pipelines.replaying.basis import voters_of
from kip_replay.pipelines.report.page import REPORT_NAME, is_current, render, write_page
from kip_replay.pipelines.report.pages import accuracy_sentence, read_pages
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.storage import Place, place_of
from kip_replay.pipelines.warehouse.maintenance import keep_bounded
from kip_replay.pipelines.warehouse.recordings import ingested_recordings
from kip_replay.pipelines.warehouse.steps import recent_of
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import INGESTED_FILES

PARSER = JobParser(
    "run",
    "Takes recordings of request logs from raw lines to a report: reads them into Delta "
    "tables, replays every request under the rules, sums up, checks the tables, and writes one "
    "HTML page on all recordings in the warehouse, whose path is printed at the end. `report` "
    "writes one on some of them.\n\n"
    "Run again, it changes nothing; with more logs, it reads what is new. `kip-replay plan` "
    "says beforehand what the logs have and lack, and how long this takes.",
    """  kip-replay run my-recording
  kip-replay run data/samples/metadata-4.0 data/samples/metadata-4.1
  kip-replay run my-recording --growing   # every hour, and once with --final
  kip-replay run --name friday --timezone Europe/Berlin --voters 1,2,3 \\
      --node '1=controller-1/kafka-request.log*' --node 11=broker-11/logs""",
    JobParser.with_recordings,
    JobParser.with_increments,
    JobParser.with_engine,
    JobParser.with_catalog,
    JobParser.with_progress,
    JobParser.with_fail_on,
)


#: All stages of a run; the commands ``ingest``, ``replay`` and ``summarize`` run one.
_STAGES = ("ingest", "replay", "summarize", "check", "decide", "report")


def work(job: Job, stages: Sequence[str] = _STAGES) -> Exit:
    watch, is_run = Stopwatch(), stages is _STAGES
    growing = is_run and job.arguments.growing
    # Reports what is wrong or missing before Spark starts.
    options, expected = replay_options(job.config), quality_settings(job.config)
    looked_at = partial(_looked_at, "replay" in stages)
    found = job.of_each(looked_at, job.recordings())
    recordings, files = [r for r, _ in found], [file for _, of in found for file in of]
    log_bytes = log_bytes_of(files)
    engine = engine_of(job, log_bytes)
    warehouse, read = engine.warehouse, list[LinesRead]()
    if "replay" in stages and job.arguments.rebuild:
        warehouse.delete_of_other_versions()
    # Without states of replays, a crash would cost more than commits do.
    with warehouse.ends_waiting(growing):
        if "ingest" in stages:
            with watch.phase("ingest"):
                read = read_logs(job, recordings, engine, files)
        if is_run:
            logged = _logged(read, warehouse)
            recordings = [recording for recording in recordings if recording.name in logged]
        names = [recording.name for recording in recordings]
        if not names:
            say("nothing was logged yet: the files are empty")
            return Exit.DONE
        if "replay" in stages:
            with watch.phase("replay"):
                replay_as_configured(job, recordings, engine, options)
        if "summarize" in stages:
            with watch.phase("summarize"):
                recent = recent_of(warehouse, names, job.config["replay"]["recent_minutes"])
                summarize(names, engine, RULES, comparable_pairs(recordings), job.tell, recent)
        quality = None
        if is_run:
            with watch.phase("incidents"):
                find_incidents(engine, names, job.config["incidents"], job.tell)
        if is_run and job.config["quality"]["in_run"]:
            with watch.phase("check"):
                quality = check(engine, names, expected)
        if is_run:
            with watch.phase("decide"):
                decide(engine, names, RULES, job.config, job.tell)
    too_many = too_many_rejected(read, job.config)
    if not is_run:
        return Exit.FELL_SHORT if too_many else Exit.DONE
    with watch.phase("report"):
        path = place_of(job.warehouse_path) / REPORT_NAME
        pages = _written(job, warehouse, recordings, path)
        held = accuracy_rows(warehouse, names)
    if growing and quality:  # or checks have not seen all files yet
        with watch.phase("maintain"):
            keep_bounded(warehouse, TABLES_OF_STEPS)
    if schema_of(job):
        with watch.phase("catalog"):
            registered(job, warehouse)
    say("", *render(pages, "text").splitlines(), f"predictions: {accuracy_sentence(held)}")
    say(*summary(quality) if quality else (), f"report: {path}")
    job.tell(str(watch))
    is_critical = quality is not None and quality.is_critical
    unwelcome = is_unwelcome(pages, job.arguments.fail_on, warehouse)
    if is_critical or too_many:
        return Exit.FELL_SHORT
    return Exit.UNWELCOME if unwelcome else Exit.DONE


def _written(
    job: Job, warehouse: Warehouse, recordings: Sequence[Recording], path: Place
) -> list[dict[str, Any]]:
    """Writes the page on all recordings unless it is current; returns those of these recordings.

    Beside it is ``report.json``, which a run reads that has nothing new to show.
    """
    versions, names = kafka_versions_of(recordings), [recording.name for recording in recordings]
    lineage = warehouse.lineage(ingested_recordings(warehouse))
    shown = sorted(name for name, step in lineage if step == DECIDED.name)
    fingerprint, values = report_fingerprint(shown, warehouse, versions), path.with_suffix(".json")
    if is_current(path, fingerprint) and values.is_file():
        pages = json.loads(values.read_bytes())["recordings"]
    else:
        recent = recent_of(warehouse, shown, job.config["replay"]["recent_minutes"])
        pages = read_pages(recent, shown, versions, limits=job.config["findings"])
        write_page(values, render(pages, "json"))
        write_page(path, render(pages), fingerprint)
    return [page for name in names for page in pages if page["recording"] == name]


def _looked_at(is_replayed: bool, recording: Recording) -> tuple[Recording, list[LogFile]]:
    if is_replayed:
        voters_of(recording)
    return recording, find_log_files(recording)


def _logged(read: Sequence[LinesRead], warehouse: Warehouse) -> set[str]:
    """Those of which there is a request: a recording that grows may begin with empty logs."""
    rows = warehouse.rows(INGESTED_FILES, [lines.recording for lines in read]).to_pylist()
    return {row["recording"] for row in rows if row["first_received_at"] is not None}


main = command(PARSER, work, __name__)
