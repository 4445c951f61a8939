"""Files, local or at a URI: how they are named, listed, looked at, opened and written.

A local path is a ``pathlib.Path``, a URI a ``Remote``, so that callers need not know which they
have. Credentials are what the environment has for the store's own tools (docs/object-stores.md): no
URI holds them, so none can reach a table, a log or a setting.
"""

import io
import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from glob import has_magic
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeAlias

import pyarrow.fs as pafs

from kip_replay.pipelines.errors import UserError

#: Hadoop's names of S3: the store is the same.
_S3 = frozenset({"s3a", "s3n"})
_SCHEMES = ("s3", "hdfs", "gs", "abfs", "abfss")
#: Bytes of a request to a store: each takes as long as some megabytes do.
_REQUEST_BYTES = 8 << 20
#: What stores, and libraries about them, say; and what to say instead.
_REASONS = {
    r"NO_SUCH_BUCKET|NoSuchBucket|Bucket '.*' not found": "there is no such bucket: correct its "
    "name, or make it",
    r"ACCESS_DENIED|AccessDenied|HTTP 403|403 Forbidden|INVALID_ACCESS_KEY_ID|InvalidAccessKeyId|"
    r"SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|ExpiredToken|EXPIRED_TOKEN|HTTP status 403": (
        "the store refuses access: give it rights, or other credentials in the environment "
        "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE)"
    ),
    r"NETWORK_CONNECTION|error sending request|dns error|Couldn't resolve host": "the store cannot "
    "be reached: correct AWS_ENDPOINT_URL or AWS_REGION, or try again when it is back",
    r"501 Not Implemented|NotImplemented": "the store refuses conditional writes (If-None-Match), "
    "by which tables are committed: name one that has them",
    r"Unable to load libhdfs|Unable to load libjvm|libhdfs": "the Hadoop client is missing: set "
    "HADOOP_HOME, CLASSPATH and ARROW_LIBHDFS_DIR",
}


def is_uri(text: str) -> bool:
    return "://" in text


def normal(text: str) -> str:
    """A path as it is, a URI in the form that all here take. Raises UserError for one of no use."""
    scheme, there, rest = text.partition("://")
    if not there:
        return text
    scheme = "s3" if scheme.lower() in _S3 else scheme.lower()
    authority = rest.partition("/")[0]
    # A secret may have slashes in it. A port is none, and abfs has CONTAINER@ACCOUNT.
    if re.search(r":(?!\d+$)", authority) or ("@" in authority and not scheme.startswith("abfs")):
        raise UserError(
            f"a URI with credentials was given, of {scheme}://: anyone could read them, so set "
            "them in the environment instead"
        )
    if scheme == "file":
        raise UserError(f"{text} is a local file: write its path, {rest}")
    if scheme not in _SCHEMES:
        known = ", ".join(f"{name}://" for name in _SCHEMES)
        raise UserError(f"{text!r} is at no store that is known: name one of {known} or a path")
    if scheme == "s3" and os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        # delta-rs, which takes the endpoint from there too, needs it stated that this is meant.
        os.environ.setdefault("AWS_ALLOW_HTTP", "true")
    return f"{scheme}://{rest}".rstrip("/")


def filesystem_of(uri: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a URI or absolute path, and the path in it."""
    if not is_uri(uri):
        return pafs.LocalFileSystem(), uri
    scheme, _, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    filesystem, base = _root(f"{scheme}://{authority}")
    return filesystem, f"{base.rstrip('/')}{slash}{path}"


@cache
def _root(root: str) -> tuple[pafs.FileSystem, str]:
    scheme, _, authority = root.partition("://")
    if scheme != "s3":
        return pafs.FileSystem.from_uri(root)  # type: ignore[no-any-return]
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    # Delayed: what is small is one request, and leaves nothing where a writer is killed.
    return pafs.S3FileSystem(endpoint_override=endpoint, allow_delayed_open=True), authority


def is_store(uri: str) -> bool:
    """Returns whether it is at a store of objects, which has no folders to be made."""
    return is_uri(uri) and not uri.startswith("hdfs://")


def reason_of(*errors: BaseException) -> str | None:
    """Returns the end of a sentence with what to do about a store's error; None of others."""
    text = " ".join(map(str, errors))
    return next((then for words, then in _REASONS.items() if re.search(words, text)), None)


@contextmanager
def _reached(place: "Remote") -> Iterator[None]:
    """Raises UserError for what fails, or a reader would take it for damage of the file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{place} cannot be used, {reason_of(error) or error}") from error


class _Reader(io.BufferedReader):
    """A file of a store, read by large requests, of which each may fail."""

    def __init__(self, place: "Remote", file: Any, buffering: int) -> None:
        super().__init__(file, buffering)
        self._place = place

    def read(self, size: int | None = -1) -> bytes:
        with _reached(self._place):
            return super().read(size)


class Remote(PurePosixPath):
    """A file or folder at a URI, with those methods of ``Path`` that are called here."""

    #: What its folder's listing has, which is not requested again.
    _listed: pafs.FileInfo | None = None

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    @property
    def anchor(self) -> str:
        return f"{self.parts[0]}//{self.parts[1]}"

    def absolute(self) -> "Remote":
        return self

    def resolve(self) -> "Remote":
        """Without ``..``."""
        return Remote(posixpath.normpath(self))

    def _info(self) -> pafs.FileInfo:
        if self._listed is not None:
            return self._listed
        filesystem, path = filesystem_of(str(self))
        with _reached(self):
            return filesystem.get_file_info(path)

    def is_file(self) -> bool:
        return bool(self._info().type is pafs.FileType.File)

    def is_dir(self) -> bool:
        return bool(self._info().type is pafs.FileType.Directory)

    def exists(self) -> bool:
        return bool(self._info().type is not pafs.FileType.NotFound)

    def stat(self) -> Any:
        info = self._info()
        if info.type is pafs.FileType.NotFound:
            raise FileNotFoundError(2, "nothing there", str(self))
        return SimpleNamespace(st_size=info.size, st_mtime_ns=info.mtime_ns)

    def iterdir(self, recursive: bool = False) -> "Iterator[Remote]":
        filesystem, path = filesystem_of(str(self))
        selector = pafs.FileSelector(path, allow_not_found=True, recursive=recursive)
        with _reached(self):
            listed = filesystem.get_file_info(selector)
        for info in listed:
            place = self / info.path[len(path) :].lstrip("/")
            place._listed = info
            yield place

    def glob(self, pattern: str) -> "Iterator[Remote]":
        """As pathlib's, but for ``**``."""
        name, _, rest = pattern.partition("/")
        for place in self.iterdir() if has_magic(name) else [self / name]:
            if not place.match(name):
                continue
            if rest:
                yield from place.glob(rest)
            elif place.exists():
                yield place

    def rglob(self, pattern: str) -> "Iterator[Remote]":
        return (place for place in self.iterdir(recursive=True) if place.match(pattern))

    def open(self, mode: str = "rb", buffering: int = _REQUEST_BYTES) -> BinaryIO:
        """A file to be read by seeking, ``_REQUEST_BYTES`` at a time unless ``buffering`` is 0."""
        filesystem, path = filesystem_of(str(self))
        with _reached(self):
            return _Reader(self, filesystem.open_input_file(path), buffering or 1)

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return file.read()

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Writes a file, which is there whole or not at all."""
        filesystem, path = filesystem_of(str(self))
        with _reached(self), filesystem.open_output_stream(path) as file:
            file.write(text.encode(encoding))


Place: TypeAlias = Path | Remote


def place_of(text: "str | Place") -> Place:
    """Opens the place that a path or a URI names. Raises UserError."""
    if isinstance(text, Remote):
        return text
    return Remote(normal(text)) if isinstance(text, str) and is_uri(text) else Path(text)


def name_within(place: Place, folder: Place) -> str | None:
    """A place's path within a folder, with slashes; None where it is elsewhere."""
    if not place.is_relative_to(folder):
        return None
    return "/".join(place.relative_to(folder).parts) or "."


def joined(base: Place, name: str) -> Place:
    """Joins a folder and a name that is relative to it, or absolute, or a URI."""
    return place_of(name) if is_uri(name) or Path(name).is_absolute() else base / name
