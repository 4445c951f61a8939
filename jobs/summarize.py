"""Sums up the outcomes of recordings, and holds the predictions against what was recorded."""

from kip_replay.jobs._cli import Exit, Job, JobParser, command
from kip_replay.jobs._engine import engine_of
from kip_replay.pipelines.analysis.summarize import comparable_pairs, summarize
from kip_replay.pipelines.ingest.log_files import find_log_files, log_bytes_of
from kip_replay.pipelines.rules import RULES

PARSER = JobParser(
    "summarize",
    "Writes latency_summary, bandwidth_summary and prediction_accuracy of recordings that "
    "`replay` has replayed: a step of `run`.\n\n"
    "Recordings with the same scenario and seed in their manifests are held against each "
    "other.",
    """  kip-replay summarize my-recording
  kip-replay summarize data/samples/metadata-4.0 data/samples/metadata-4.1""",
    JobParser.with_recordings,
    JobParser.with_engine,
)


def work(job: Job) -> Exit:
    recordings = job.recordings()
    names = [recording.name for recording in recordings]
    engine = engine_of(job, log_bytes_of(find_log_files(*recordings)))
    summarize(names, engine, RULES, comparable_pairs(recordings), job.tell)
    return Exit.DONE


main = command(PARSER, work, __name__)
