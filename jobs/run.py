"""The whole way: ingest, replay, summarize, check, report."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import (
    TABLES_OF_STEPS,
    engine_of,
    is_unwelcome,
    pages_follow_from,
    profile,
    quality_settings,
    read_logs,
    registered,
    replay_as_configured,
    replay_options,
    schema_of,
    seconds_of,
    state_versions,
    too_many_rejected,
)
from kip_replay.pipelines import progress
from kip_replay.pipelines.analysis.accuracy import accuracy_rows
from kip_replay.pipelines.analysis.decide import decide
from kip_replay.pipelines.analysis.health import find_health
from kip_replay.pipelines.analysis.summarize import comparable_pairs, summarize
from kip_replay.pipelines.ingest.log_files import LogFile, find_log_files, log_bytes_of
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.step import LinesRead
from kip_replay.pipelines.quality import check, summary
from kip_replay.pipelines.replaying.increments import voters_of
from kip_replay.pipelines.report.page import REPORT_NAME, is_current, render, write_page
from kip_replay.pipelines.report.pages import accuracy_sentence, read_pages
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.storage import Place, place_of
from kip_replay.pipelines.warehouse.maintenance import keep_bounded
from kip_replay.pipelines.warehouse.recordings import ingested_recordings
from kip_replay.pipelines.warehouse.steps import fingerprint, recent_of
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles

PARSER = JobParser(
    "run",
    "Makes a report from recordings of request logs: reads the lines into Delta tables, replays "
    "every request under the rules, sums up, checks the tables, and writes one HTML page on all "
    "recordings in the warehouse. At the end it prints the page's path. `report` writes a page on "
    "some recordings.\n\n"
    "A second run changes nothing; if the logs have grown, it reads what is new. `kip-replay plan` "
    "says beforehand what the logs have and lack, and how long a run takes.",
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
PARSER.add_argument(
    "--profile",
    action="store_true",
    help="print the seconds and the rows of each step and rule, one after the other: locally, "
    "all is done by one process",
)

#: All stages of a run; the commands ``ingest``, ``replay`` and ``summarize`` run one.
_STAGES = ("ingest", "replay", "summarize", "check", "decide", "report")


def work(job: Job, stages: Sequence[str] = _STAGES) -> Exit:
    is_run = stages is _STAGES
    growing = is_run and job.arguments.growing
    # Reports what is wrong or missing before Spark starts.
    options, expected = replay_options(job.config), quality_settings(job.config)
    looked_at = partial(_looked_at, "replay" in stages)
    looks = job.of_each(looked_at, job.recordings())
    recordings, files = [r for r, _ in looks], [file for _, logs in looks for file in logs]
    log_bytes = log_bytes_of(files)
    engine = engine_of(job, log_bytes)
    warehouse, read = engine.warehouse, list[LinesRead]()
    if "replay" in stages and job.arguments.rebuild:
        warehouse.delete_of_other_versions()
    with warehouse.ends_waiting():
        if "ingest" in stages:
            progress.phase("ingest", is_first=True)
            read = read_logs(job, recordings, engine, files)
        if is_run:
            logged = _logged(read, warehouse)
            recordings = [recording for recording in recordings if recording.name in logged]
        names = [recording.name for recording in recordings]
        if not names:
            say("nothing was logged yet: the files are empty")
            return Exit.DONE
        if "replay" in stages:
            progress.phase("replay")
            replay_as_configured(job, recordings, engine, options)
        if "summarize" in stages:
            progress.phase("summarize")
            recent = recent_of(warehouse, names, job.config["replay"]["recent_minutes"])
            summarize(names, engine, RULES, comparable_pairs(recordings), job.tell, recent)
        quality = None
        if is_run:
            progress.phase("health")
            find_health(engine, names, RULES, job.config, job.tell)
        if is_run and job.config["quality"]["in_run"]:
            progress.phase("check")
            quality = check(engine, names, expected)
        if is_run:
            progress.phase("decide")
            decide(engine, names, RULES, job.config, job.tell)
    too_many = too_many_rejected(read, job.config)
    if not is_run:
        return Exit.FELL_SHORT if too_many else Exit.DONE
    progress.phase("report")
    path = place_of(job.warehouse_path) / REPORT_NAME
    pages = _written(job, warehouse, recordings, path)
    judged = accuracy_rows(warehouse, names)
    if growing and quality:  # or checks have not seen all files yet
        progress.phase("maintain")
        keep_bounded(warehouse, TABLES_OF_STEPS)
    if schema_of(job):
        progress.phase("catalog")
        registered(job, warehouse)
    say("", *render(pages, "text").splitlines(), f"predictions: {accuracy_sentence(judged)}")
    say(*summary(quality) if quality else (), f"report: {path}")
    parts = progress.parts()
    job.tell(seconds_of(parts))
    say(*profile(parts) if job.arguments.profile else ())
    is_critical = quality is not None and quality.is_critical
    unwelcome = is_unwelcome(pages, job.arguments.fail_on, warehouse)
    if is_critical or too_many:
        return Exit.FELL_SHORT
    return Exit.UNWELCOME if unwelcome else Exit.DONE


def _written(
    job: Job, warehouse: Warehouse, recordings: Sequence[Recording], path: Place
) -> list[dict[str, Any]]:
    """Writes the page on all recordings unless it is current; returns those of these recordings.

    Beside it is ``report.json``, from which pages are taken that follow from what they did.
    """
    limits, minutes = job.config["findings"], job.config["replay"]["recent_minutes"]
    recent = recent_of(warehouse, ingested_recordings(warehouse), minutes)
    follow_from = pages_follow_from(warehouse, recent, limits)
    there, values = {}, path.with_suffix(".json")
    if values.is_file():
        kept = json.loads(values.read_bytes())["recordings"]
        there = {page["recording"]: page for page in kept if "follows_from" in page}
    new = [n for n in follow_from if follow_from[n] != there.get(n, {}).get("follows_from")]
    if new:
        for page in read_pages(recent, new, limits=limits, beside=[*follow_from]):
            there[page["recording"]] = page | {"follows_from": follow_from[page["recording"]]}
    pages = [there[name] for name in follow_from]
    state_versions(pages, recordings)
    text = json.dumps({"recordings": pages})
    whole = fingerprint(text)
    if new or not is_current(path, whole):
        write_page(values, text)
        write_page(path, render(pages), whole)
    return [there[recording.name] for recording in recordings]


def _looked_at(is_replayed: bool, recording: Recording) -> tuple[Recording, list[LogFile]]:
    if is_replayed:
        voters_of(recording)
    return recording, find_log_files(recording)


def _logged(read: Sequence[LinesRead], warehouse: Warehouse) -> set[str]:
    """Those of which there is a request: a recording that grows may begin with empty logs."""
    rows = warehouse.rows(IngestedFiles, [lines.recording for lines in read]).to_pylist()
    return {row["recording"] for row in rows if row["first_received_at"] is not None}


main = command(PARSER, work, __name__)
