"""The manifest of a recording that was made here."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from kip_replay.pipelines.ingest.draft import manifest_text
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.record.cluster import Node
from kip_replay.pipelines.record.collect import LOG_NAME, folder_of
from kip_replay.pipelines.record.polls import BROKER_CONFIGS
from kip_replay.replay.kafka.request_log.layouts import Framing, LineReader

#: A line is stamped and read within so many minutes, with clocks that are set.
_MINUTES_OFF_MAX = 5
_QUARTER = timedelta(minutes=15)
_STAMP = slice(1, 24)


def zone_of(head: bytes, read_at: float, local: str | None) -> str | None:
    """The zone of a log's stamps, by when its first bytes were read; None if that does not show.

    ``local`` is the name of this machine's zone.
    """
    lines = LineReader("UTC", Framing().of_head(head)).read(head.splitlines(), 1)
    if not (requests := lines.requests()):
        return None
    first = requests[0][_STAMP].decode()
    at = datetime.fromtimestamp(read_at, UTC)
    ahead = datetime.strptime(f"{first}+0000", "%Y-%m-%d %H:%M:%S,%f%z") - at
    quarters = round(ahead / _QUARTER)
    if abs(ahead - quarters * _QUARTER) > timedelta(minutes=_MINUTES_OFF_MAX):
        return None
    if quarters == 0:
        return "UTC"
    if local and at.astimezone(_zone(local)).utcoffset() == quarters * _QUARTER:
        return local
    return f"Etc/GMT{-quarters // 4:+d}" if quarters % 4 == 0 and abs(quarters) <= 48 else None


def local_zone() -> str | None:
    """This machine's zone as IANA names it, where it says so."""
    named = os.environ.get("TZ", "").lstrip(":")
    if not named:
        link = str(Path("/etc/localtime").resolve())
        named = link.partition("/zoneinfo/")[2]
    try:
        return named if named and _zone(named) else None
    except (ValueError, OSError, KeyError):
        return None


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def write_manifest(
    folder: Path,
    nodes: Sequence[Node],
    zones: Mapping[int, str | None],
    configs: Mapping[int, Mapping[str, str]],
    voters: Sequence[int],
    facts: Mapping[str, Any],
) -> str:
    """Writes the manifest, whole or not at all; returns what it says of zones."""
    known = sorted({zone for zone in zones.values() if zone})
    top = max(known, key=[*zones.values()].count) if known else "UTC"
    entries = [
        {
            "node_id": node.node_id,
            "role": node.role,
            "log": f"{folder_of(node)}/{LOG_NAME}*",
            **({"timezone": own} if (own := zones.get(node.node_id) or top) != top else {}),
        }
        for node in nodes
    ]
    manifest = {
        "name": folder.resolve().name,
        "timezone": top,
        **({"voters": [*voters]} if voters else {}),
        **_settings(configs),
        **facts,
        "nodes": entries,
    }
    new = folder / f".{MANIFEST}"
    new.write_text(manifest_text(manifest), encoding="utf-8")
    new.replace(folder / MANIFEST)
    if known:
        return f"time zone of the stamps: {', '.join(known)}, by this machine's clock"
    return "time zone of the stamps: not known, UTC is assumed: correct 'timezone'"


def _settings(configs: Mapping[int, Mapping[str, str]]) -> dict[str, int]:
    """Configs that all brokers have alike, as a manifest names them."""
    settings = {}
    for name, key in BROKER_CONFIGS.items():
        values = {of_broker[name] for of_broker in configs.values() if name in of_broker}
        if len(values) == 1 and (value := values.pop()).isdigit():
            settings[key] = int(value)
    return settings
