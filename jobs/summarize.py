"""Sums up the outcomes of recordings, and holds the predictions against what was recorded."""

from functools import partial

from kip_replay.jobs._cli import JobParser, command
from kip_replay.jobs.run import work

PARSER = JobParser(
    "summarize",
    "Writes latency_summary, bandwidth_summary and prediction_accuracy of recordings that "
    "`replay` has replayed: a step of `run`.\n\n"
    "Recordings with the same scenario and seed in their manifests are compared with each "
    "other.",
    """  kip-replay summarize my-recording
  kip-replay summarize data/samples/metadata-4.0 data/samples/metadata-4.1""",
    JobParser.with_recordings,
    JobParser.with_engine,
    JobParser.with_progress,
)

main = command(PARSER, partial(work, stages=("summarize",)), __name__)
