"""min.insync.replicas of each topic, as the log has it over time."""

from __future__ import annotations

from typing import Any

from kip_replay.replay.min_isr_acks.events import Event


class MinIsrConfig:
    """min.insync.replicas per topic, as set, deleted or described."""

    def __init__(self, default: int | None) -> None:
        self._default = default
        self._set: dict[str, int] = {}
        self._described: dict[str, int] = {}

    def take(self, event: Event) -> str:
        """Take a config; returns its topic, empty for the default."""
        name, value = event.name or "", event.value
        number = int(value) if value is not None and value.isdigit() else None
        if event.operation == "describe":
            # What describes a topic that was set may be older than what was set.
            if number is not None and name:
                self._described[name] = number
            elif number is not None:
                self._default = number
        elif event.operation == "set" and number is not None:
            if name:
                self._set[name] = number
            else:
                self._default = number
        elif name:
            self._set.pop(name, None)
            self._described.pop(name, None)
        return name

    def saved(self) -> list[Any]:
        """Plain values to start from."""
        return [self._default, self._set, self._described]

    def start_from(self, plain: list[Any]) -> None:
        """Take what ``saved`` returned."""
        self._default, self._set, self._described = plain

    def of(self, topic: str) -> int | None:
        """The value in force for a topic, None if the log does not have it."""
        known = self._set.get(topic, self._described.get(topic))
        return self._default if known is None else known
