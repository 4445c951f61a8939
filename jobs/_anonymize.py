"""Where the key of ``--anonymize`` comes from."""

import argparse
import os
from pathlib import Path

from kip_replay.jobs._parser import KEY_VARIABLE as KEY_VARIABLE
from kip_replay.pipelines.errors import UserError
from kip_replay.replay.kafka.request_log import Pseudonyms


def pseudonyms_of(arguments: argparse.Namespace) -> Pseudonyms | None:
    """What names are replaced by, None to leave them. Raises UserError for an unusable key."""
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
