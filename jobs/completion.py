"""Prints a script with which a shell completes commands, options, folders and recordings."""

import argparse
from importlib import import_module

import shtab

from kip_replay.jobs._cli import Exit, Job, command
from kip_replay.jobs._parser import WAREHOUSE_VARIABLE, JobParser
from kip_replay.jobs.main import JOBS

_RECORDINGS = "_kip_replay_recordings"
#: Names are the folders of a table that every recording has rows in. They come from manifests that
#: anyone may have written, so no shell is to expand them.
_LIST = f"""ls "${{{WAREHOUSE_VARIABLE}:-warehouse}}/ingested_files" 2>/dev/null |
    sed -n 's/^recording=//p'"""
_PREAMBLE = {
    "bash": f"""
{_RECORDINGS}() {{
  {_LIST} | while read -r name; do
    [[ $name == "$1"* ]] && printf '%q\\n' "$name"
  done
  compgen -d -- "$1"
}}
""",
    "zsh": f"""
{_RECORDINGS}() {{
  local -a names
  names=("${{(@f)$({_LIST})}}")
  compadd -a names
  _files -/
}}
""",
}
_OF_RECORDINGS = dict.fromkeys(_PREAMBLE, _RECORDINGS)
#: How options and arguments with these names in usages are completed.
_COMPLETED = {
    **dict.fromkeys(("RECORDING", "BEFORE", "AFTER", "NAME"), _OF_RECORDINGS),
    **dict.fromkeys(("FILE", "KEYFILE", "PAGE"), shtab.FILE),
    "DIR": shtab.DIRECTORY,
}

PARSER = JobParser(
    "completion",
    "Prints a script with which a shell completes commands, options, files, and the names of "
    f"recordings in the warehouse ({WAREHOUSE_VARIABLE}, or ./warehouse).",
    """  kip-replay completion bash > ~/.local/share/bash-completion/completions/kip-replay
  eval "$(kip-replay completion bash)"                  (this shell only)
  kip-replay completion zsh > "${fpath[1]}/_kip-replay"  (then: compinit)""",
)
PARSER.add_argument("shell", choices=[*_PREAMBLE], help="the shell that reads the script")


def work(job: Job) -> Exit:
    print(script(job.arguments.shell))
    return Exit.DONE


def script(shell: str) -> str:
    """The script for a shell: what all parsers take."""
    whole = argparse.ArgumentParser(prog="kip-replay", add_help=False)
    commands = whole.add_subparsers(dest="command")
    for name, summary in JOBS.items():
        parser = PARSER if name == "completion" else import_module(f"kip_replay.jobs.{name}").PARSER
        copy = commands.add_parser(name, help=summary, parents=[parser], add_help=False)
        for action in copy._actions:
            if action.metavar in _COMPLETED:
                action.complete = _COMPLETED[action.metavar]  # type: ignore[attr-defined]
    return shtab.complete(whole, shell=shell, preamble=_PREAMBLE[shell])


main = command(PARSER, work, __name__)
