"""Replays the rules on recordings whose logs are in the warehouse."""

from kip_replay.jobs._cli import Exit, Job, JobParser, command
from kip_replay.jobs._engine import engine_of
from kip_replay.jobs._steps import expect_stages, replay_as_configured, replay_options
from kip_replay.pipelines.ingest.log_files import find_log_files, log_bytes_of
from kip_replay.pipelines.replaying.basis import voters_of

PARSER = JobParser(
    "replay",
    "Replays recordings that `ingest` has read, under every rule and variant: a step of `run`."
    "\n\nOutcomes that today's rules, settings and logs would give again are left as they are.",
    """  kip-replay replay my-recording
  kip-replay replay my-recording --rebuild
  kip-replay replay my-recording --growing --set replay.late_after_s=120""",
    JobParser.with_recordings,
    JobParser.with_increments,
    JobParser.with_engine,
    JobParser.with_progress,
)


def work(job: Job) -> Exit:
    recordings = job.recordings()
    # Reports what is wrong or missing before Spark starts.
    replay_options(job.config)
    for recording in recordings:
        voters_of(recording)
    log_bytes = log_bytes_of(find_log_files(*recordings))
    expect_stages(job, log_bytes, "replay")
    replay_as_configured(job, recordings, engine_of(job, log_bytes))
    return Exit.DONE


main = command(PARSER, work, __name__)
