"""The configuration of a job: TOML, and single settings over it.

conf/defaults.toml, each rule's and conf/decisions.toml, over them the file of ``--conf``, over it
each ``--set``. Only keys that the defaults have are taken, so that a misspelt key is not silently
nothing.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rule_files import conf_dir, read_toml, rule_files

Config = dict[str, dict[str, Any]]


def read_config(file: str | None, settings: Sequence[str]) -> Config:
    """Defaults, then the file, then ``section.key=value`` each. Raises UserError."""
    config = read_toml(conf_dir() / "defaults.toml", Config)
    config |= {rule: {**stated.defaults} for rule, stated in rule_files().items()}
    for section, values in read_toml(conf_dir() / "decisions.toml", Config).items():
        config[section] = config.get(section, {}) | values
    if file is not None:
        for section, values in read_toml(Path(file), dict[str, Any]).items():
            if not isinstance(values, Mapping):
                raise UserError(f"{section!r} in {file} stands outside of a [section]: move it")
            for key, value in values.items():
                _set(config, section, key, value, file)
    for setting in settings:
        name, equals, text = setting.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot):
            raise UserError(
                f"--set {setting!r} is not SECTION.KEY=VALUE: write for instance "
                "--set ingest.max_rejected_share=0.05"
            )
        _set(config, section, key, _toml_value(text.strip()), f"--set {setting!r}")
    return config


def _set(config: Config, section: str, key: str, value: object, source: str) -> None:
    if key not in config.get(section, {}):
        known = [f"{name}.{k}" for name, keys in config.items() for k in keys]
        raise UserError(
            f"{source}: there is no setting {section}.{key} (CHANGELOG.md has those that were "
            f"removed): there are {', '.join(sorted(known))}"
        )
    kind = type(config[section][key])
    config[section][key] = value
    config[section][key] = checked(config, f"{section}.{key}", kind, f"{source}: ")


def checked(config: Config, name: str, kind: Any, source: str = "") -> Any:
    """The value of ``section.key``, of a kind that msgspec knows. Raises UserError."""
    section, key = name.split(".")
    value = config[section][key]
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        example = read_config(None, [])[section][key]
        wanted = f"write a value such as {example!r} ({error})"
        raise UserError(f"{source}{name} is {value!r}: {wanted}") from None


def _toml_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a text without quotes
