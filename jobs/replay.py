"""Replays the rules on recordings whose logs are in the warehouse."""

from functools import partial

from kip_replay.jobs._cli import JobParser, command
from kip_replay.jobs.run import work

PARSER = JobParser(
    "replay",
    "Replays recordings that `ingest` has read, under every rule and variant: a step of `run`."
    "\n\nOutcomes stay as they are if the rules, settings and logs have not changed.",
    """  kip-replay replay my-recording
  kip-replay replay my-recording --rebuild
  kip-replay replay my-recording --growing --set replay.late_after_s=120""",
    JobParser.with_recordings,
    JobParser.with_increments,
    JobParser.with_engine,
    JobParser.with_progress,
)

main = command(PARSER, partial(work, stages=("replay",)), __name__)
