"""The option ``--anonymize``, for jobs that read logs, and where its key comes from."""

import argparse
import os
from pathlib import Path

from kip_replay.jobs._cli import JobParser
from kip_replay.pipelines.errors import UserError
from kip_replay.replay.kafka.request_log import Pseudonyms

#: May hold the key where there is no file for it.
KEY_VARIABLE = "REPLAY_ANONYMIZE_KEY"


def with_anonymize(parser: JobParser) -> JobParser:
    parser.add_argument(
        "--anonymize",
        metavar="KEYFILE",
        help="replace client ids, principals, hosts, topics and all other names by hashes with the "
        "key in this file (openssl rand -hex 32 makes one), so that the warehouse can be shared; "
        f"the environment variable {KEY_VARIABLE} can hold the key instead",
    )
    return parser


def pseudonyms_of(arguments: argparse.Namespace) -> Pseudonyms | None:
    """What names are replaced by, None to leave them. Raises UserError for an unusable key."""
    if arguments.anonymize is not None:
        source, secret = arguments.anonymize, _content(arguments.anonymize)
    elif KEY_VARIABLE in os.environ:
        source, secret = KEY_VARIABLE, os.fsencode(os.environ[KEY_VARIABLE])
    else:
        return None
    try:
        return Pseudonyms.of_secret(secret)
    except ValueError as error:
        raise UserError(
            f"the key in {source} is too short ({error}): make one with openssl rand -hex 32"
        ) from None


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UserError(
            f"the key file {file} cannot be read ({error.strerror}): make one with "
            f"openssl rand -hex 32 > {file}"
        ) from None
