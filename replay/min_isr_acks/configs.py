"""min.insync.replicas of each topic, as the log has it over time."""

import msgspec

from .events import Event


class MinIsrConfig(msgspec.Struct):
    """min.insync.replicas per topic, as set, deleted or described."""

    default: int | None
    assigned: dict[str, int] = {}
    described: dict[str, int] = {}
    #: Topics whose config was altered, but the leader may not have applied it yet.
    opened: list[str] = []
    #: What it was before a hole in which it may have been altered.
    doubted: tuple[int | None, dict[str, int], dict[str, int]] | None = None

    def take(self, event: Event) -> None:
        """Take a config of a topic, or of the default where it has no name."""
        name, value = event.name or "", event.value
        self.opened = [one for one in self.opened if one != name]
        number = int(value) if value is not None and value.isdigit() else None
        if event.operation == "describe":
            # What describes a topic that was set may be older than what was set.
            if number is not None and name:
                self.described[name] = number
            elif number is not None:
                self.default = number
        elif event.operation == "set" and number is not None:
            if name:
                self.assigned[name] = number
            else:
                self.default = number
        elif name:
            self.assigned.pop(name, None)
            self.described.pop(name, None)

    def doubt(self) -> None:
        """All of it may be another one by now."""
        if self.doubted is None:
            self.doubted = self.default, self.assigned, self.described
        self.default, self.assigned, self.described = None, {}, {}

    def believe(self) -> None:
        """It is none: but for what was read since, it is as it was."""
        if self.doubted is not None:
            default, assigned, described = self.doubted
            self.default = default if self.default is None else self.default
            self.assigned, self.described = assigned | self.assigned, described | self.described
            self.doubted = None

    def of(self, topic: str) -> int | None:
        """The value in force for a topic, None if the log does not have it."""
        known = self.assigned.get(topic, self.described.get(topic))
        if topic in self.opened or (known is None and "" in self.opened):
            return None
        return self.default if known is None else known
