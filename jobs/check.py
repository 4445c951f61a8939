"""Checks the tables of recordings: data quality, with results, failing rows and Data Docs."""

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._steps import engine_of, quality_settings
from kip_replay.pipelines.quality import check, summary

PARSER = JobParser(
    "check",
    "Checks the tables of recordings: that lines are accounted for and none is lost, that ids, "
    "times and offsets are in order, that outcomes belong to requests and summaries to "
    "outcomes. `run` does it too; this reads the tables anew each time, and writes a Great "
    "Expectations project with Data Docs into the folder gx.\n\n"
    "Results are in the table quality_results, failing rows in quality_failures. The suites "
    "are in conf/quality.",
    """  kip-replay check                              (all recordings in ./warehouse)
  kip-replay check my-recording
  kip-replay check my-recording --warehouse /data/warehouse
  kip-replay check --set 'quality.more_suites=["my-suites"]'""",
    JobParser.with_names,
    JobParser.with_engine,
)


def work(job: Job) -> Exit:
    names = [*job.named(job.arguments.recordings)]
    settings = quality_settings(job.config)
    outcome = check(engine_of(job), names, settings, anew=True)
    say(*summary(outcome))
    return Exit.FELL_SHORT if outcome.is_critical else Exit.DONE


main = command(PARSER, work, __name__)
