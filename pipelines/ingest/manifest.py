"""A manifest, ``recording.json``, as JSON that says what it means: nothing in it is passed over.

A key that is not known would silently be nothing, and what was meant by it with it. So only these
are taken: what is read (``ENTRIES``, also what rules declare, and ``NODE_ENTRIES`` of a node), how
a recording was made (``FACTS``, of which the jobs read scenario and seed), and whatever is in the
object ``facts``.
"""

import difflib
import json
import re
import shlex
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar

import msgspec

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rule_files import RuleKey, rule_files
from kip_replay.pipelines.storage import Place, place_of
from kip_replay.pipelines.warehouse.data_files import partition_folder

MANIFEST = "recording.json"
_Entries = TypeVar("_Entries")
#: Ids and counts are INT32 in Kafka.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Both = Literal["broker,controller", "broker, controller", "controller,broker"]
_Roles = Literal["broker", "controller", "controller, broker"] | _Both
#: In milliseconds: a clock that is further off than a day is not corrected but looked into.
_Offset = Annotated[int, msgspec.Meta(ge=-86_400_000, le=86_400_000)]


class NodeEntry(msgspec.Struct):
    node_id: _Count
    # Without a pattern, which msgspec 0.22 frees twice beside a list: Python may then end with 139.
    log: _Text | Annotated[list[_Text], msgspec.Meta(min_length=1)]
    role: _Roles | None = None
    timezone: _Text | None = None
    clock_offset_ms: _Offset = 0
    node_by: Annotated[dict[_Text, _Text], msgspec.Meta(min_length=1, max_length=1)] | None = None


class Manifest(msgspec.Struct):
    name: _Text | None = None
    kafka_version: _Text | None = None
    timezone: _Text | None = None
    nodes: list[Any] = []
    voters: list[_Count] | None = None


class _Topic(TypedDict, total=False):
    min_insync_replicas: _Count


#: ``texts``: an object, of names in the log (client ids, addresses or their ranges) to texts.
#: ``topics``: of topics' names to what rules read of each; it may hold more.
_TYPES: dict[str, Any] = {"count": _Count, "text": _Text, "texts": dict[_Text, _Text]}
_TYPES["topics"] = dict[_Text, _Topic]
#: What recordings state, by rule and key.
RuleFacts: TypeAlias = Mapping[str, Mapping[str, Any]]
RULE_KEYS = {rule: stated.manifest for rule, stated in rule_files().items() if stated.manifest}
ENTRIES = frozenset(Manifest.__struct_fields__).union(*RULE_KEYS.values())
NODE_ENTRIES = frozenset(NodeEntry.__struct_fields__)
_OF_CLUSTER = {"broker_configs", "broker_session_timeout_ms", "cluster_id", "configs", "patched"}
_OF_CLUSTER |= {"replica_fetch_min_bytes", "replica_fetch_wait_max_ms", "replica_lag_time_max_ms"}
_OF_CLUSTER |= {"quorum_status", "quorum_status_end", "replication_factor", "session_slots"}
_OF_LOAD = {"delays_ms", "duration_s", "partitions", "producers", "scenario", "seed"}
#: How a recording was made: load, patches, settings of the brokers.
FACTS = _OF_CLUSTER | _OF_LOAD | {"description", "facts", "notes", "recorded_at"}
#: What Spark and Hive call a folder without a value.
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
#: A path, where a name becomes a file's: of separators, of dots alone, with a drive.
_NO_NAME = re.compile(r"[/\\]|^\.+$|^[A-Za-z]:")
_VERSION = re.compile(r"\d+(\.\d+)+([-.+_][\w.+-]+)?", re.ASCII)
#: No manifest is as long: a log is, which would be in memory as a whole.
_MANIFEST_BYTES_MAX = 64 << 20


def read_manifest(path: str | Place | None, needed: bool) -> tuple[Place | None, dict[str, Any]]:
    """A recording's folder, and what its manifest holds. Raises UserError."""
    if path is None:
        return None, {}
    try:
        return _folder_and_manifest(place_of(path), needed)
    except OSError as error:
        raise UserError(
            f"the recording at {path} cannot be read ({error.strerror}): correct its rights or its "
            "name"
        ) from None


def _folder_and_manifest(path: Place, needed: bool) -> tuple[Place, dict[str, Any]]:
    folder, file = path, path / MANIFEST
    if path.is_file():
        folder, file = path.parent, path
    if not folder.is_dir():
        raise UserError(f"there is no recording at {path}: no such folder")
    if not file.is_file():
        if needed:
            raise UserError(_without_manifest(folder))
        return folder, {}
    try:
        with file.open("rb") as opened:
            text = opened.read(_MANIFEST_BYTES_MAX + 1)
        if len(text) > _MANIFEST_BYTES_MAX:
            raise ValueError("too long")
        manifest = json.loads(text.decode(), object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        if file.name != MANIFEST:
            raise UserError(
                f"{file} is no manifest: a RECORDING is a folder that holds {MANIFEST}, a log is "
                f"named with --node ID={file}"
            ) from None
        raise UserError(f"{file} cannot be read as JSON ({error}): correct it") from None
    if not isinstance(manifest, dict):
        raise UserError(f"{file} is not a JSON object: see docs for what a manifest holds")
    _require_known(manifest, ENTRIES | FACTS, MANIFEST, "'facts' may hold what no job reads")
    return folder, manifest


def recordings_below(folder: Place) -> list[Place]:
    return sorted(file.parent for file in folder.glob(f"*/{MANIFEST}"))


def _without_manifest(folder: Place) -> str:
    below = recordings_below(folder)
    if below:
        names = " ".join(shlex.quote(str(path)) for path in below[:3])
        more = f" and {len(below) - 3:,} more" if len(below) > 3 else ""
        return f"{folder} holds no {MANIFEST}, but {names}{more} do: name those"
    return (
        f"{folder} holds no {MANIFEST}: kip-replay plan {shlex.quote(str(folder))} prints one to "
        "start from; or name the logs with --node ID=PATH"
    )


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in entries if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return entries


def _require_known(
    entries: Mapping[str, Any], known: Collection[str], where: str, way_out: str
) -> None:
    """Raises UserError for the first key that is not known, with the nearest one that is."""
    for key in entries:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"is {near[0]!r} meant?" if near else way_out
            raise UserError(f"{where} has a key {key!r} that is not known: {meant}")


def require_name(name: str) -> None:
    """Raises UserError for a name that folders, tables or terminals cannot bear."""
    if not name.isprintable():
        wrong = "holds control or invisible characters"
    elif _NO_NAME.search(name):
        wrong = "reads as a path"
    elif not name.strip() or name == _HIVE_NULL:
        wrong = "is that of no recording"
    elif len(partition_folder(name)) > 255:  # its folder in each table, of which 255 bytes may be
        wrong = "is too long"
    else:
        return
    raise UserError(
        f"the recording's name {name[:80]!r} {wrong}: give it another in {MANIFEST} or by --name"
    )


def entries_of(manifest: Mapping[str, Any]) -> Manifest:
    return _converted(manifest, Manifest, MANIFEST)


def rule_facts(manifest: Mapping[str, Any]) -> RuleFacts:
    """Reads what each rule declares, by rule, without what is not known. Raises UserError."""
    return {
        rule: {
            name: value
            for name, key in keys.items()
            if (value := _stated(name, key, manifest)) is not None
        }
        for rule, keys in RULE_KEYS.items()
    }


def _stated(name: str, key: RuleKey, manifest: Mapping[str, Any]) -> Any:
    entry = msgspec.defstruct("Entry", [(name, _TYPES[key.type] | None, None)])
    return getattr(_converted(manifest, entry, MANIFEST, f"it is {key.says}"), name)


def node_entry(entry: Any, number: int) -> NodeEntry:
    """Reads the entry of a node, the one of this number from 1. Raises UserError."""
    node_id = entry.get("node_id") if isinstance(entry, dict) else None
    where = f"node {node_id if is_id(node_id) else f'number {number}'} of {MANIFEST}"
    node = _converted(entry, NodeEntry, where)
    if "\0" in "".join(node.log):
        raise UserError(f"{where} names a log with a NUL in it, as no path has: correct 'log'")
    _require_known(entry, NODE_ENTRIES, where, "remove it")
    return node


def _converted(
    entries: Any, type_: type[_Entries], where: str, way_out: str = "see docs/manifest.md"
) -> _Entries:
    try:
        return msgspec.convert(entries, type_)
    except msgspec.ValidationError as error:
        if "$.role" in str(error):
            way_out = "role is broker, controller or broker,controller"
        raise UserError(f"{where} is wrong ({error}): {way_out}") from None


def version(value: str | None) -> str | None:
    """Requires a version of Kafka, or none. Raises UserError."""
    if value is None or _VERSION.fullmatch(value):
        return value
    way_out = f"correct 'kafka_version' in {MANIFEST} or --kafka-version"
    raise UserError(f"{value!r} is no version of Kafka such as 4.1.1 or 7.6.1-ccs: {way_out}")


def is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
