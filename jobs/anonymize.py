"""Replaces the names in logs, so that they can be handed to somebody else."""

import secrets
from pathlib import Path

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.anonymize import anonymize, log_alone
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.recording import RecordingOptions, load_recording
from kip_replay.pipelines.storage import is_uri, place_of

PARSER = JobParser(
    "anonymize",
    "Writes logs anew with the names in them replaced: topics, clients, groups, users, hosts and "
    "whatever other text is not known to be harmless. A name keeps its length, so what is written "
    "runs like any other recording, with the same counts, times and sizes, and can be sent with a "
    "bug report.\n\n"
    "Lines that cannot be read may hold names: they are left out and counted. Look at what is "
    "written before you send it; docs/anonymize.md says what stays.",
    """  kip-replay anonymize my-recording to-be-sent
  kip-replay anonymize my-recording to-be-sent --key "$(cat my-key)"
  kip-replay anonymize broker-11/kafka-request.log.gz to-be-sent
  kip-replay run to-be-sent""",
    has_warehouse=False,
)
_add = PARSER.add_argument
_add("logs", metavar="LOGS", help=f"folder with a {MANIFEST}, or one log")
_add("out", metavar="OUT", help="folder to write into: a new or an empty one")
_add(
    "--key",
    metavar="TEXT",
    help="secret from which the new names follow: with one key, equal names are replaced alike; "
    "whoever has it can test which name is which. Keep it to yourself (default: a random key, "
    "which is printed)",
)
_add(
    "--allow-outside",
    action="store_true",
    help=f"let a {MANIFEST} name logs outside of its folder, or link to them",
)


def work(job: Job) -> Exit:
    arguments = job.arguments
    if is_uri(arguments.out):
        raise UserError(f"OUT is a folder of this machine, {arguments.out} is none: name another")
    if arguments.key is not None and not arguments.key.strip():
        raise UserError("--key is empty: give one that nobody guesses, or none for a random one")
    logs, key = place_of(arguments.logs), arguments.key or secrets.token_hex(16)
    if logs.is_file() and logs.suffix != ".json":
        recording = log_alone(logs)
    else:
        recording = load_recording(logs, RecordingOptions(allow_outside=arguments.allow_outside))
    done = anonymize(recording, key, Path(arguments.out))
    say(f"written to {arguments.out}: {done.lines:,} lines of {done.logs:,} logs")
    if done.left_out:
        say(f"lines left out, since they could not be read: {done.left_out:,}")
    if recording.path is None:
        say(f"next: kip-replay plan {arguments.out}, which drafts a {MANIFEST}")
    if arguments.key is None:
        say(f"key: {key} (keep it to yourself; with --key, names are replaced alike again)")
    return Exit.DONE


main = command(PARSER, work, __name__)
