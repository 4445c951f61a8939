"""Reads request logs into the warehouse: every line once."""

from functools import partial

from kip_replay.jobs._cli import JobParser, command
from kip_replay.jobs.run import work

PARSER = JobParser(
    "ingest",
    "Reads the request logs of recordings into Delta tables: the first step of `run`.\n\n"
    "Files that were read before are not read again, and lines that were read before count as "
    "repeated. Lines that cannot be read are in the table rejected_lines, with the reason.",
    """  kip-replay ingest data/samples/metadata-4.0 data/samples/metadata-4.1
  kip-replay ingest my-recording --warehouse /data/warehouse
  kip-replay ingest --name friday --timezone Europe/Berlin --kafka-version 4.1.1 \\
      --node '1=controller-1/kafka-request.log*' --node 11=broker-11/logs""",
    JobParser.with_recordings,
    partial(JobParser.with_increments, of_replay=False),
    JobParser.with_engine,
    JobParser.with_progress,
)
main = command(PARSER, partial(work, stages=("ingest",)), __name__)
