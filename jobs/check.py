"""Checks the tables of recordings: data quality, with results, failing rows and Data Docs."""

from __future__ import annotations

from kip_replay.jobs._cli import Exit, Job, JobParser, command
from kip_replay.jobs._steps import names_of, quality_settings, say_all
from kip_replay.pipelines.quality import check, summary

PARSER = JobParser(
    "check",
    "Checks what `run` wrote of recordings against the suites of conf/quality: that lines are "
    "accounted for and none is lost, that ids, times and offsets are in order, that outcomes "
    "belong to requests and summaries to outcomes. Reads the tables anew each time; results are "
    "in quality_results, failing rows in quality_failures, a Great Expectations project in gx.",
    """  kip-replay check data/samples/metadata-4.0
  kip-replay check my-recording --warehouse /data/warehouse \\
      --set 'quality.more_suites=["my-suites"]'""",
).with_recordings()


def work(job: Job) -> Exit:
    """Checks the recordings named."""
    names = names_of(job.recordings())
    settings = quality_settings(job.config)
    outcome = check(job.warehouse(), names, settings, anew=True)
    say_all(summary(outcome))
    return Exit.FELL_SHORT if outcome.is_critical else Exit.DONE


main = command(PARSER, work, __name__)
