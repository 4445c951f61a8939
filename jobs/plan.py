"""Plans a run on some logs: which rules it can replay, what it lacks, and how long it takes."""

import json
import os
import shlex
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.jobs._estimate import expected_bytes, expected_s, machine_scale
from kip_replay.jobs._text import in_columns, size_text
from kip_replay.pipelines.analysis.needs import Answerable, answerable
from kip_replay.pipelines.ingest.draft import drafted, manifest_of, manifest_text
from kip_replay.pipelines.ingest.manifest import MANIFEST, recordings_below
from kip_replay.pipelines.ingest.overview import NodeOverview, Overview, overview
from kip_replay.pipelines.storage import Place, is_uri, place_of
from kip_replay.pipelines.warehouse.data_files import moment

PARSER = JobParser(
    "plan",
    "Looks at the heads and tails of logs, in seconds, and says what a run on them will answer: "
    "nodes, their span of time, volume, Kafka's versions, which rules can be answered and what is "
    "missing for the others, how long the run takes and how much disk it needs. It ends with the "
    "command to run next.\n\n"
    f"For a folder without a {MANIFEST}, a log or an archive, it prints one to start from, guessed "
    "from names and logs.",
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
#: APIs shown of each recording, the most frequent ones.
_APIS = 8


@dataclass(frozen=True)
class Plan:
    """A recording; ``draft`` is a manifest for a folder that has none, with ``notes`` on it."""

    found: Overview
    rules: list[Answerable]
    draft: dict[str, Any] | None = None
    notes: Sequence[str] = ()


def work(job: Job) -> Exit:
    given = job.arguments
    gap_minutes_max = job.config["ingest"]["node_gap_minutes_max"]
    places = [] if given.node else map(place_of, given.recordings)
    folders = [place for place in places if _is_without_manifest(place)]
    plans = job.of_each(lambda folder: _drafted(folder, gap_minutes_max, job), folders)
    if len(folders) < len(given.recordings) or given.node or not folders:
        for recording in job.recordings(but=folders):
            found = overview(recording, gap_minutes_max)
            if not (recording.voters or recording.controller_ids):
                found.refused.append(f"{recording.name} does not say who votes: add 'voters'")
            plans.append(Plan(found, answerable(found)))
    whole = _whole(plans, job.warehouse_path)
    if given.write_manifest:
        whole["written"] = [str(file) for file in _written(plans, job)]
    if given.format == "json":
        text = json.dumps({"recordings": [_as_json(plan) for plan in plans], **whole}, indent=2)
        lines = text.splitlines()
    else:
        lines = [line for plan in plans for line in _lines(plan)] + [*_ending(plans, whole, job)]
    for line in lines:
        say(line)
    return Exit.WRONG_USAGE if any(plan.found.refused for plan in plans) else Exit.DONE


def _is_without_manifest(place: Place) -> bool:
    if place.is_file():
        return place.name != MANIFEST
    return place.is_dir() and not ((place / MANIFEST).is_file() or recordings_below(place))


def _drafted(place: Place, gap_minutes_max: float, job: Job) -> Plan:
    options = job.options()
    recording, notes = drafted(place, options.timezone or "UTC")
    since, until = options.span(recording.timezone)
    recording = replace(recording, since=since, until=until)
    found = overview(recording, gap_minutes_max)
    return Plan(found, answerable(found), manifest_of(found), notes)


def _written(plans: Sequence[Plan], job: Job) -> Iterator[Place]:
    """Writes the drafts, each into its folder, which standard input has none of."""
    for plan in plans:
        folder = plan.found.recording.path
        if plan.draft is not None and folder is not None and not job.is_stdin(str(folder)):
            (folder / MANIFEST).write_text(manifest_text(plan.draft), encoding="utf-8")
            yield folder / MANIFEST


def _whole(plans: Sequence[Plan], warehouse: str) -> dict[str, Any]:
    """Plans one run on all of them."""
    log_bytes = sum(plan.found.log_bytes for plan in plans)
    rules = [rule.rule for rule in plans[0].rules] if plans else []
    parsed = (sum(getattr(p.found, of) for p in plans) for of in ("sample_bytes", "parse_s"))
    free = None
    if not is_uri(warehouse):
        place = Path(warehouse).absolute()
        there = next(folder for folder in (place, *place.parents) if folder.exists())
        free = shutil.disk_usage(there).free
    return {
        "seconds": round(machine_scale(*parsed) * sum(expected_s(log_bytes, rules).values())),
        "warehouse_bytes": expected_bytes(log_bytes),
        "free_bytes": free,
    }


# --- text


def _lines(plan: Plan) -> Iterator[str]:
    found = plan.found
    nodes, files = found.nodes, sum(node.files for node in found.nodes)
    yield (
        f"{found.recording.name}: {len(nodes)} nodes, {files} files, "
        f"{size_text(sum(node.disk_bytes for node in nodes))} on disk, "
        f"{size_text(found.log_bytes)} of log, about {sum(n.lines for n in nodes):,} lines"
    )
    head = ("node", "role", "files", "log", "lines", "log an hour", "from (UTC)", "until")
    rows = [head, *(_row(node) for node in nodes)]
    yield from (f"  {line}" for line in in_columns(rows, right={0, 2, 3, 4, 5}))
    if found.of_brokers:
        first, last = found.of_brokers
        seconds = (last - first) / 1e6
        yield f"  all brokers logged from {_at(first)} to {_at(last)}, {seconds:,.0f} s"
    apis = sum((node.apis for node in nodes), Counter[tuple[str, int]]())
    named = ", ".join(f"{name} v{version}" for (name, version), _ in apis.most_common(_APIS))
    versions = ", ".join(found.kafka_versions) or "of a version that the samples do not show"
    yield from _fitted(f"  Kafka {versions}; most frequent: {named or 'no request'}")
    yield "rules"
    width = max(len(rule.rule) for rule in plan.rules)
    for rule in plan.rules:
        verdict = "not from what the samples show" if rule.missing else "can be answered"
        yield f"  {rule.rule:{width}}  {verdict}"
        helpful = (f"better with more: {text}" for text in rule.helpful)
        for text in (*rule.missing, *helpful, *(f"before the logs: {text}" for text in rule.open)):
            yield from _fitted(f"    {text}")
    yield "problems" if found.refused or found.problems else "problems: none in the samples"
    for text in (*(f"a run stops: {text}" for text in found.refused), *found.problems):
        yield from _fitted(f"  {text}")
    if plan.draft is not None:
        yield f"{MANIFEST}: there is none; this is one to start from"
        yield from (f"  {line}" for line in manifest_text(plan.draft).splitlines())
        for note in plan.notes:
            yield from _fitted(f"  to do: {note}")


def _fitted(line: str) -> list[str]:
    """The line, in several where a terminal is too narrow for it."""
    if not sys.stdout.isatty():
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    width = max(shutil.get_terminal_size().columns - 1, 40)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)


def _row(node: NodeOverview) -> tuple[str, ...]:
    first, last, hourly = "?", "?", "?"
    if node.span:
        first = _at(node.span[0])
    if node.span and node.is_end_seen:
        last, span_us = _at(node.span[1]), node.span[1] - node.span[0]
        hourly = size_text(round(node.log_bytes * 3600e6 / span_us)) if span_us > 0 else "?"
    sizes = str(node.files), size_text(node.log_bytes), f"{node.lines:,}"
    return (str(node.node.node_id), node.role or "?", *sizes, hourly, first, last)


def _ending(plans: Sequence[Plan], whole: dict[str, Any], job: Job) -> Iterator[str]:
    cores = os.cpu_count() or 1
    yield (
        f"a run takes about {_duration(whole['seconds'])} here ({cores} cores), and up to "
        f"{size_text(whole['warehouse_bytes'])} in {job.warehouse_path}"
    )
    free = whole["free_bytes"]
    if free is not None and free < 2 * whole["warehouse_bytes"]:
        yield f"only {size_text(free)} are free there: name another disk with --warehouse"
    is_stdin = any(map(job.is_stdin, job.arguments.recordings))
    if job.arguments.write_manifest:
        why = "standard input has no folder" if is_stdin else f"there is a {MANIFEST}"
        yield f"written: {', '.join(whole['written']) or f'nothing, {why}'}"
    if any(plan.found.refused for plan in plans):
        yield f"next: correct what a run stops at, then {_again(job, 'plan')}"
    elif is_stdin:
        yield "next: write the log into a folder, and kip-replay plan FOLDER --write-manifest"
    elif any(plan.draft is not None for plan in plans) and not job.arguments.write_manifest:
        yield f"next: {_again(job, 'plan')} --write-manifest, correct the file, and run"
    else:
        first = f"correct {MANIFEST} as stated above, and " if whole.get("written") else ""
        yield f"next: {first}{_again(job, 'run')}"


def _again(job: Job, name: str) -> str:
    """The command with what was given to this one."""
    given = job.arguments
    words = ["kip-replay", name, *("-" if job.is_stdin(r) else r for r in given.recordings)]
    for node in given.node:
        words += ["--node", f"{node.partition('=')[0]}=-" if job.is_stdin(node) else node]
    for option in ("name", "timezone", "kafka_version", "voters", "conf", "since", "until"):
        if (value := getattr(given, option)) is not None:
            flag = "from" if option == "since" else option.replace("_", "-")
            words += [f"--{flag}", value]
    words += ["--allow-outside"] if given.allow_outside else []
    if job.warehouse_path != PARSER.get_default("warehouse"):
        words += ["--warehouse", job.warehouse_path]
    return shlex.join(words)


def _at(us: int) -> str:
    return f"{moment(us):%F %T}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(5 * round(seconds / 5), 5)} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


# --- JSON


def _as_json(plan: Plan) -> dict[str, Any]:
    found = plan.found
    return {
        "name": found.recording.name,
        "nodes": [
            {
                "node_id": node.node.node_id,
                "role": node.role or None,
                "files": node.files,
                "disk_bytes": node.disk_bytes,
                "log_bytes": node.log_bytes,
                "lines": node.lines,
                "from": _at(node.span[0]) if node.span else None,
                "until": _at(node.span[1]) if node.span and node.is_end_seen else None,
                "requests_in_sample": {f"{n} v{v}": c for (n, v), c in node.apis.most_common()},
            }
            for node in found.nodes
        ],
        "of_all_brokers": [_at(us) for us in found.of_brokers] if found.of_brokers else None,
        "kafka_versions": found.kafka_versions,
        "rules": [vars(rule) for rule in plan.rules],
        "refused": found.refused,
        "problems": found.problems,
        "manifest_draft": plan.draft,
        "to_do": [*plan.notes],
    }


main = command(PARSER, work, __name__)
