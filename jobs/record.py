"""Records the request logs of a running cluster: the one command that touches brokers."""

import shlex
import signal
from pathlib import Path
from typing import Any

from kip_replay.jobs._cli import Exit, Job, JobParser, command, say
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.record.cluster import ON, Cluster, client_options
from kip_replay.pipelines.record.session import OFF, RecordingSession, levels_of, set_levels

PARSER = JobParser(
    "record",
    "Switches kafka.request.logger on for some minutes on all brokers and controllers, collects "
    "what it writes, switches it off, and writes the recording.json.\n\n"
    "First it prints how to switch the logger off again. It does so itself when it ends, fails or "
    "is interrupted; after kill -9, run it with --off.",
    """  kip-replay record --bootstrap-server broker-11:9092 --bootstrap-controller ctl-1:9093 \\
      --logs 'ssh {host} timeout 1h tail -n 0 -F /var/log/kafka/kafka-request.log' --output monday
  kip-replay record --bootstrap-server localhost:9092 --output try --dry-run
  kip-replay record --bootstrap-server kafka:9092 --output k8s \\
      --logs 'kubectl logs -f --since=1s -n kafka kafka-{id}'
  kip-replay record --off --bootstrap-server broker-11:9092 --bootstrap-controller ctl-1:9093""",
    has_warehouse=False,
)
for _name, _metavar, _help in (
    ("--bootstrap-server", "HOST:PORT,...", "some of the brokers"),
    (
        "--bootstrap-controller",
        "HOST:PORT,...",
        "some of the controllers; without it, no controller is recorded",
    ),
    ("--command-config", "FILE", "client properties, as kafka-configs.sh takes them"),
    ("--output", "DIR", "folder of the recording, new or empty"),
):
    PARSER.add_argument(_name, metavar=_metavar, help=_help, required=_name.endswith("server"))
PARSER.add_argument(
    "--logs",
    action="append",
    default=[],
    metavar="[ID=]SOURCE",
    help="where nodes' logs are: a file or folder on this machine or, if SOURCE has a blank, a "
    "shell command that prints the log as it grows, until it is ended. {id}, {host} and {role} "
    "stand for the node's; ID= is for one node. Without --logs, prints how to collect logs by hand",
)
for _name, _default, _help in (
    ("--minutes", 5.0, "how long to record"),
    ("--mb-per-second-max", 50.0, "stop if a node writes more MB a second, over 10 s"),
):
    _help = f"{_help} (default: {_default:g})"
    PARSER.add_argument(_name, type=float, default=_default, metavar="N", help=_help)
_instead = PARSER.add_mutually_exclusive_group()
_instead.add_argument("--dry-run", action="store_true", help="say what it would do; change nothing")
_instead.add_argument("--off", action="store_true", help=f"only set loggers that are on to {OFF}")


def work(job: Job) -> Exit:
    arguments = job.arguments
    if not arguments.off and not arguments.output:
        raise UserError("record where? Name a new folder with --output")
    options = client_options(arguments.command_config)
    named = (arguments.bootstrap_server, arguments.bootstrap_controller or "")
    brokers, controllers = (text.replace(",", " ").split() for text in named)
    with Cluster(brokers, controllers, options) as cluster:
        return _switch_off(cluster, arguments) if arguments.off else _record(cluster, arguments)


def _record(cluster: Cluster, arguments: Any) -> Exit:
    limits = arguments.minutes * 60, arguments.mb_per_second_max
    session = RecordingSession(
        cluster, Path(arguments.output), arguments.logs, *limits, _undo(arguments), say
    )
    session.prepare()
    if arguments.dry_run:
        session.collect()
        session.discard()
        say("nothing was changed (--dry-run)")
        return Exit.DONE
    signals: list[int] = []

    def end(number: int, _: object) -> None:
        signals.append(number)
        session.stop(f"{signal.Signals(number).name}; what was recorded until then can be used")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        return Exit.DONE if session.record() and not signals else Exit.FAILED
    except UserError:
        session.discard()
        raise


def _switch_off(cluster: Cluster, arguments: Any) -> Exit:
    levels, unreachable = levels_of(cluster)
    failures = set_levels(cluster, {n: OFF for n in levels if levels[n] in ON}, _undo(arguments))
    say(*(f"{node}: was {level}" for node, level in levels.items()))
    say(*failures, *(f"not looked at: {sentence}" for sentence in unreachable))
    if failures or unreachable:
        return Exit.FAILED
    say("no node logs requests now")
    return Exit.DONE


def _undo(arguments: Any) -> str:
    words = ["kip-replay", "record", "--off"]
    for name in ("bootstrap_server", "bootstrap_controller", "command_config"):
        if value := getattr(arguments, name):
            words += [f"--{name.replace('_', '-')}", value]
    return shlex.join(words)


main = command(PARSER, work, __name__)
