"""Reads request logs into the warehouse: every line once."""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._config import Config
from kip_replay.jobs._engine import engine_of
from kip_replay.jobs._parser import KEY_VARIABLE as KEY_VARIABLE
from kip_replay.jobs._steps import expect_stages
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.log_files import LogFile, find_log_files, log_bytes_of
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.step import IngestSettings, LinesRead, ingest
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.request_log import Pseudonyms

PARSER = JobParser(
    "ingest",
    "Reads the request logs of recordings into Delta tables: the first step of `run`.\n\n"
    "Files that are in already are not read again, lines that are in already are counted as "
    "repeated. Lines that cannot be read are in the table rejected_lines, with the reason.",
    """  kip-replay ingest data/samples/metadata-4.0 data/samples/metadata-4.1
  kip-replay ingest my-recording --warehouse /data/warehouse
  kip-replay ingest --name friday --timezone Europe/Berlin --kafka-version 4.1.1 \\
      --node '1=controller-1/kafka-request.log*' --node 11=broker-11/logs
  kip-replay ingest my-recording --anonymize KEYFILE --warehouse to-be-shared""",
    JobParser.with_recordings,
    partial(JobParser.with_increments, of_replay=False),
    JobParser.with_engine,
    JobParser.with_progress,
    JobParser.with_anonymize,
)
_REASONS = """
    SELECT recording, reason, count(*) FROM rejected_lines
    GROUP BY ALL ORDER BY recording, count(*) DESC, reason"""


def pseudonyms_of(arguments: argparse.Namespace) -> Pseudonyms | None:
    """Returns what replaces names, None to leave them. Raises UserError for an unusable key."""
    file, secret = arguments.anonymize, os.environ.get(KEY_VARIABLE)
    if file is None and secret is None:
        return None
    try:
        key = Path(file).read_bytes() if file is not None else os.fsencode(secret or "")
        return Pseudonyms.of_secret(key)
    except OSError as error:
        raise UserError(
            f"the key file {file} cannot be read ({error.strerror}): make one with "
            f"openssl rand -hex 32 > {file}"
        ) from None
    except ValueError as error:
        raise UserError(
            f"the key in {file or KEY_VARIABLE} is too short ({error}): make one with "
            "openssl rand -hex 32"
        ) from None


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
    pseudonyms = pseudonyms_of(job.arguments)
    one = partial(ingest, engine=engine, settings=settings, say=job.tell, pseudonyms=pseudonyms)
    try:
        read = one(recordings, found=files)
    except UserError:
        if len(recordings) == 1:
            raise
        read = [lines for [lines] in job.of_each(one, [[each] for each in recordings])]
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


def work(job: Job) -> Exit:
    pseudonyms_of(job.arguments)  # reports what is wrong before Spark starts
    found = job.of_each(lambda r: (r, find_log_files(r)), job.recordings())
    recordings, files = [r for r, _ in found], [file for _, of in found for file in of]
    log_bytes = log_bytes_of(files)
    expect_stages(job, log_bytes, "survey", "read logs")
    read = read_logs(job, recordings, engine_of(job, log_bytes), files)
    return Exit.FELL_SHORT if too_many_rejected(read, job.config) else Exit.DONE


main = command(PARSER, work, __name__)
