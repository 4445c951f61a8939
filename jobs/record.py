"""Records the request logs of a running cluster: the one command that touches brokers."""

import shlex
import signal
from pathlib import Path
from typing import Any

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.record.cluster import Cluster
from kip_replay.pipelines.record.polls import ON
from kip_replay.pipelines.record.properties import client_options
from kip_replay.pipelines.record.session import (
    SHIPPED_LEVEL,
    Limits,
    Session,
    levels_of,
    set_levels,
)

PARSER = JobParser(
    "record",
    "Switches kafka.request.logger on for some minutes on all brokers and controllers, collects "
    "what it writes, switches it off, and writes the recording.json.\n\n"
    "It prints first how to switch off again. It switches off when it ends, fails, or is "
    "interrupted; after a kill -9, --off does.",
    """  kip-replay record --bootstrap-server broker-11:9092 --bootstrap-controller ctl-1:9093 \\
      --logs 'ssh:{host}:/var/log/kafka/kafka-request.log' --output prod-monday
  kip-replay record --bootstrap-server localhost:9092 --output try --dry-run
  kip-replay record --bootstrap-server kafka:9092 --logs 'kubectl:kafka/kafka-{id}' --output k8s
  kip-replay record --bootstrap-server broker-11:9092 --bootstrap-controller ctl-1:9093 --off""",
    has_warehouse=False,
)
PARSER.add_argument(
    "--bootstrap-server", required=True, metavar="HOST:PORT,...", help="some of the brokers"
)
PARSER.add_argument(
    "--bootstrap-controller",
    metavar="HOST:PORT,...",
    help="some of the controllers, at their own port; without, no controller is recorded",
)
PARSER.add_argument(
    "--command-config",
    metavar="FILE",
    help="client properties as kafka-configs.sh takes them: PLAIN or SCRAM, TLS with PEM",
)
PARSER.add_argument("--output", metavar="DIR", help="folder of the recording, new or empty")
PARSER.add_argument(
    "--minutes", type=float, default=5.0, metavar="N", help="how long to record (default: 5)"
)
PARSER.add_argument(
    "--logs",
    action="append",
    default=[],
    metavar="[ID=]SOURCE",
    help="where nodes' logs are: /PATH (file or folder), ssh:[USER@]HOST:/PATH, or "
    "kubectl:[NAMESPACE/]POD[:CONTAINER]; {id}, {host} and {role} stand for the node's; ID= is for "
    "one node. Without, it prints how to collect by hand",
)
PARSER.add_argument(
    "--mb-per-second-max",
    type=float,
    default=50.0,
    metavar="N",
    help="stop if a node writes more, over 10 s (default: 50)",
)
PARSER.add_argument(
    "--mb-max", type=float, default=5000.0, metavar="N", help="stop at so many in all (5000)"
)
_what = PARSER.add_mutually_exclusive_group()
_what.add_argument(
    "--dry-run", action="store_true", help="connect and say what would be done; change nothing"
)
_what.add_argument(
    "--off", action="store_true", help=f"set what is still on to {SHIPPED_LEVEL}, and do no more"
)
PARSER.with_progress()


def work(job: Job) -> Exit:
    given = job.arguments
    if not given.off and not given.output:
        raise UserError("record where? Name a new folder with --output")
    if given.minutes <= 0:
        raise UserError(f"--minutes {given.minutes:g} is not above 0")
    options = client_options(given.command_config)
    controllers = _addresses(given.bootstrap_controller or "")
    with Cluster(_addresses(given.bootstrap_server), controllers, options) as cluster:
        return _switch_off(cluster, given) if given.off else _record(cluster, given)


def _record(cluster: Cluster, given: Any) -> Exit:
    limits = Limits(given.minutes * 60, given.mb_per_second_max, given.mb_max)
    session = Session(cluster, Path(given.output), given.logs, limits, _undo(given), say)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        reason = f"{number.name}; what was recorded until then can be used"
        signal.signal(number, lambda *_, reason=reason: session.stop.request(reason, True))
    session.prepare()
    if given.dry_run:
        say(f"nothing was changed (--dry-run); would record {given.minutes:g} min")
        return Exit.DONE
    is_off = session.record()
    return Exit.DONE if is_off and not session.stop.is_signal else Exit.FAILED


def _switch_off(cluster: Cluster, given: Any) -> Exit:
    levels, unreachable = levels_of(cluster)
    still_on = {node: SHIPPED_LEVEL for node, level in levels.items() if level in ON}
    failures = set_levels(cluster, still_on, _undo(given))
    failed = " ".join(failures)
    for node, level in levels.items():
        done = f"{level} -> {SHIPPED_LEVEL}" if node in still_on else f"{level}, left as it is"
        if f"node {node.node_id} may" not in failed:
            say(f"node {node.node_id} ({node.role}): {done}")
    say(*failures, *(f"not looked at: {sentence}" for sentence in unreachable))
    return Exit.FAILED if failures or unreachable else Exit.DONE


def _undo(given: Any) -> str:
    words = ["kip-replay", "record", "--off"]
    for option in ("bootstrap_server", "bootstrap_controller", "command_config"):
        if value := getattr(given, option):
            words += [f"--{option.replace('_', '-')}", value]
    return shlex.join(words)


def _addresses(text: str) -> list[str]:
    return [address.strip() for address in text.split(",") if address.strip()]


main = command(PARSER, work, __name__)
