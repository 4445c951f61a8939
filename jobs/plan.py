"""Plans a run on some logs: who logged what and when, what is missing, and how long it takes."""

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from kip_replay.jobs._cli import Exit, Job, JobParser, command, in_columns, say, size_text
from kip_replay.pipelines.ingest.checks import some
from kip_replay.pipelines.ingest.draft import drafted, manifest_of, manifest_text
from kip_replay.pipelines.ingest.manifest import MANIFEST, recordings_below
from kip_replay.pipelines.ingest.overview import NodeOverview, Overview, overview
from kip_replay.pipelines.ingest.recording import Recording, RecordingOptions
from kip_replay.pipelines.replaying.log_gaps import gap_sentence, selection_in, selection_sentence
from kip_replay.pipelines.storage import Place, is_uri, place_of
from kip_replay.pipelines.warehouse.data_files import moment

PARSER = JobParser(
    "plan",
    "Reads logs, large ones only at head and tail, and says within seconds which node logged what "
    "and when: nodes, their span of time, volume and requests, Kafka's versions, what is missing, "
    "how long a run takes and how much disk it needs. It ends with the command to run next.\n\n"
    f"For a folder without a {MANIFEST}, a log or an archive, it drafts one, guessed from names "
    "and logs.",
    """  kip-replay plan my-recording
  kip-replay plan folder-of-logs --write-manifest
  kubectl logs kafka-0 | kip-replay plan -
  kip-replay plan my-recording --format json
  kip-replay plan --name friday --timezone Europe/Berlin --voters 1,2,3 \\
      --node '1=controller-1/kafka-request.log*' --node 11=broker-11/logs""",
    JobParser.with_recordings,
)
_add = PARSER.add_argument
_add("--format", choices=("text", "json"), default="text", help="default: %(default)s")
_add("--write-manifest", action="store_true", help=f"write the draft, if there is no {MANIFEST}")
#: Seconds of a run of all rules on two cores: of any, and of each MB (10^6 bytes) of uncompressed
#: log. Fitted to runs of 5 to 95 MB with the local engine, on a machine that had other work beside;
#: of the CPU time, what the main thread does not take counts half.
_RUN_S, _MB_S = 5.2, 0.168
#: Of the tables on disk, for each byte of uncompressed log: no recording has needed more.
_TABLE_BYTES = 0.5
#: APIs shown of each node, the most frequent ones.
_APIS = 8
#: Clients shown of a recording.
_CLIENTS = 5
_THEN = (
    "then: docs/sql.md has statements that show what was offline or under-replicated; which "
    "clients rebalance and why, produce most, poll idle, open connections, were refused, break at "
    "4.x; unused topics, committed lag, p99 by API over time"
)


Record = dict[str, Any]


def work(job: Job) -> Exit:
    arguments = job.arguments
    places = [] if arguments.node else map(place_of, arguments.recordings)
    folders = [place for place in places if _is_without_manifest(place)]
    drafts = job.of_each(partial(_drafted, options=job.options()), folders)
    recordings = []
    if len(folders) < len(arguments.recordings) or arguments.node or not folders:
        recordings = job.recordings(but=folders)
    gap_minutes_max = job.config["ingest"]["node_gap_minutes_max"]
    looks = [(overview(recording, gap_minutes_max), notes) for recording, notes in drafts]
    looks += [(overview(recording, gap_minutes_max), None) for recording in recordings]
    plans = [_record(seen, notes) for seen, notes in looks]
    whole: Record = {"recordings": plans, **_expected([seen for seen, _ in looks], job)}
    if arguments.write_manifest:
        whole["written"] = []
        for (recording, _), plan in zip(drafts, plans, strict=False):
            file = (recording.path or Path()) / MANIFEST
            if not job.is_stdin(str(file)):  # which has no folder
                file.write_text(manifest_text(plan["manifest_draft"]), encoding="utf-8")
                whole["written"].append(str(file))
    if arguments.format == "json":
        say(*json.dumps(whole, indent=2).splitlines())
    else:
        say(*(line for plan in plans for line in _lines(plan)), *_ending(whole, job))
    return Exit.WRONG_USAGE if any(plan["refused"] for plan in plans) else Exit.DONE


def _is_without_manifest(place: Place) -> bool:
    if place.is_file():
        return place.name != MANIFEST
    return place.is_dir() and not ((place / MANIFEST).is_file() or recordings_below(place))


def _drafted(place: Place, options: RecordingOptions) -> tuple[Recording, list[str]]:
    recording, notes = drafted(place, options.timezone or "UTC")
    since, until = options.span(recording.timezone)
    return replace(recording, since=since, until=until), notes


def _record(seen: Overview, notes: Sequence[str] | None) -> Record:
    """Builds what is printed of a recording; with ``notes`` on it, a manifest is drafted."""
    recording, refused = seen.recording, [*seen.refused]
    if notes is None and recording.voters is None and not recording.controller_ids:
        refused.append(f"{recording.name} does not say who votes: add 'voters'")
    draft, to_do = None if notes is None else manifest_of(seen), [*(notes or ())]
    if draft and draft["voters"]:
        to_do.append("check 'voters': all controllers are assumed to vote")
    elif draft and not seen.of_zookeeper:
        to_do.append("no log is a controller's, so 'voters' is empty: collect the controllers' too")
    return {
        "name": recording.name,
        "nodes": [_node_record(node) for node in seen.nodes],
        "of_all_brokers": [_at(us) for us in seen.of_brokers] if seen.of_brokers else None,
        "kafka_versions": sorted(seen.kafka_versions),
        "produced_bytes": dict(seen.produced.most_common()),
        "deprecated": sorted(seen.deprecated),
        "missing": [*_missing(seen)],
        "refused": refused,
        "problems": seen.problems,
        "manifest_draft": draft,
        "to_do": to_do,
    }


def _missing(seen: Overview) -> Iterator[str]:
    tables = {name: pa.Table.from_batches(batches) for name, batches in seen.rows.items()}
    if selection := tables and selection_in(tables):
        yield selection_sentence(selection)
        return
    for node_id, evidence in seen.without_log.items():
        yield gap_sentence(
            {"recording": seen.recording.name, "node_id": node_id, "evidence": evidence}
        )
    where = " in the samples" if any(node.is_sample for node in seen.nodes) else ""
    for role, apis in seen.absent.items():
        yield f"no {role} logged {', '.join(apis)}{where}"


def _node_record(node: NodeOverview) -> Record:
    excerpts = [look.excerpts for look in node.looks]
    first, last = node.span or (None, None)
    return {
        "node_id": node.node.node_id,
        "role": node.role or None,
        "files": len(excerpts),
        "disk_bytes": sum(excerpt.disk_bytes for excerpt in excerpts),
        "log_bytes": node.log_bytes,
        "from": _at(first) if first else None,
        "until": _at(last) if last and node.is_end_seen else None,
        "is_sample": node.is_sample,
        "requests": {f"{api} v{version}": n for (api, version), n in node.apis.most_common()},
    }


def _expected(looks: Sequence[Overview], job: Job) -> Record:
    """Estimates one run on all of them."""
    log_bytes = sum(seen.log_bytes for seen in looks)
    free = None
    if not is_uri(job.warehouse_path):
        place = Path(job.warehouse_path).absolute()
        there = next(folder for folder in (place, *place.parents) if folder.exists())
        free = shutil.disk_usage(there).free
    return {
        "seconds": round(_RUN_S + _MB_S * log_bytes / 1e6),
        "warehouse_bytes": int(_TABLE_BYTES * log_bytes),
        "free_bytes": free,
    }


# --- text


def _lines(plan: Record) -> Iterator[str]:
    nodes = plan["nodes"]
    files, disk_bytes, log_bytes = (
        sum(node[name] for node in nodes) for name in ("files", "disk_bytes", "log_bytes")
    )
    yield (
        f"{plan['name']}: {len(nodes)} nodes, {files} files, {size_text(disk_bytes)} on disk, "
        f"{size_text(log_bytes)} of log"
    )
    head = ("node", "role", "files", "log", "log an hour", "from (UTC)", "until")
    rows = in_columns([head, *map(_row, nodes)], right={0, 2, 3, 4})
    yield from (f"  {line}" for line in rows)
    if plan["of_all_brokers"]:
        first, last = plan["of_all_brokers"]
        yield f"  all brokers logged from {first} to {last}, {_seconds(first, last):,.0f} s"
    yield f"  Kafka {', '.join(plan['kafka_versions']) or 'of a version that no line shows'}"
    yield "requests"
    for node in nodes:
        named = some((f"{name} ({count:,})" for name, count in node["requests"].items()), _APIS)
        sample = " (samples)" if node["is_sample"] else ""
        yield from _fitted(f"  node {node['node_id']}{sample}: {named or 'none'}")
    for what, texts in (
        ("who produces most", [f"{c} ({size_text(n)})" for c, n in plan["produced_bytes"].items()]),
        ("deprecated versions of", plan["deprecated"]),
    ):
        sample = ", in samples" if any(node["is_sample"] for node in nodes) else ""
        yield from _fitted(f"{what}{sample}: {some(texts, _CLIENTS)}") if texts else ()
    yield "missing" if plan["missing"] else "missing: nothing"
    for text in plan["missing"]:
        yield from _fitted(f"  {text}")
    yield "problems" if plan["refused"] or plan["problems"] else "problems: none"
    for text in (*(f"a run stops: {text}" for text in plan["refused"]), *plan["problems"]):
        yield from _fitted(f"  {text}")
    if plan["manifest_draft"]:
        yield f"{MANIFEST}: there is none; this is one to start from"
        yield from (f"  {line}" for line in manifest_text(plan["manifest_draft"]).splitlines())
        for note in plan["to_do"]:
            yield from _fitted(f"  to do: {note}")


def _fitted(line: str) -> list[str]:
    """The line, in several where a terminal is too narrow for it."""
    if not sys.stdout.isatty():
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    width = max(shutil.get_terminal_size().columns - 1, 40)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)


def _row(node: Record) -> tuple[str, ...]:
    first, last, hourly = node["from"] or "?", node["until"] or "?", "?"
    if node["until"] and (seconds := _seconds(first, last)) > 0:
        hourly = size_text(round(node["log_bytes"] * 3600 / seconds))
    sizes = str(node["files"]), size_text(node["log_bytes"])
    return (str(node["node_id"]), node["role"] or "?", *sizes, hourly, first, last)


def _seconds(first: str, last: str) -> float:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def _ending(whole: Record, job: Job) -> Iterator[str]:
    yield (
        f"a run takes about {_duration(whole['seconds'])} on two cores of a server, and "
        f"up to {size_text(whole['warehouse_bytes'])} in {job.warehouse_path}"
    )
    free = whole["free_bytes"]
    if free is not None and free < 2 * whole["warehouse_bytes"]:
        yield f"only {size_text(free)} are free there: name another disk with --warehouse"
    is_stdin = any(map(job.is_stdin, job.arguments.recordings))
    if job.arguments.write_manifest:
        why = "standard input has no folder" if is_stdin else f"there is a {MANIFEST}"
        yield f"written: {', '.join(whole['written']) or f'nothing, {why}'}"
    if any(plan["refused"] for plan in whole["recordings"]):
        yield f"next: correct what a run stops at, then {_again(job, 'plan')}"
    elif is_stdin:
        yield "next: write the log into a folder, and kip-replay plan FOLDER --write-manifest"
    elif whole.get("written"):
        yield f"next: correct {MANIFEST} as stated above, and {_again(job, 'run')}"
    elif any(plan["manifest_draft"] for plan in whole["recordings"]):
        yield f"next: {_again(job, 'plan')} --write-manifest, correct the file, and run"
    else:
        yield f"next: {_again(job, 'run')}"
        yield from _fitted(_THEN)


def _again(job: Job, name: str) -> str:
    """The command with what was given to this one."""
    words = (word for word in job.words if word != "--write-manifest")
    return shlex.join(["kip-replay", name, *words])


def _at(us: int) -> str:
    return f"{moment(us):%F %T}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(5 * round(seconds / 5), 5)} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


main = command(PARSER, work, __name__)
