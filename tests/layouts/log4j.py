"""Writes lines of kafka.request.logger with log4j2's own layouts, of the jars that Spark has."""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

THREAD = "data-plane-kafka-network-thread-11-ListenerName(PLAINTEXT)-PLAINTEXT-2"
CANONICAL = re.compile(rb"\[([-\d]+ [:\d]+,\d{3})\] (\w+) (.*) \(kafka\.request\.logger\)")


class Event(NamedTuple):
    """An event of kafka.request.logger, as log4j2 has it."""

    millis: int
    level: str
    message: str
    thread: str = THREAD


# What a layout keeps of an event's time: all but the zone, all, no milliseconds, no date, nothing,
# or digits that a reader takes for another time.
Stamp = Literal["local", "absolute", "seconds", "time", "none", "misread"]


class Layout(NamedTuple):
    """A layout: its pattern, template or options, and what it keeps of an event."""

    argument: str
    stamp: Stamp = "local"
    kind: Literal["pattern", "template", "json"] = "pattern"

    @property
    def longest(self) -> int | None:
        """Characters of a message from which on it is cut and ends in "…" (maxStringLength)."""
        return 16_384 if self.kind == "template" else None


LAYOUTS: dict[str, Layout] = {
    # Kafka's config/log4j2.yaml and the images of Apache, Confluent and Bitnami.
    "kafka": Layout("[%d] %p %m (%c)%n"),
    "kafka-thread": Layout("[%d] %p [%t] %m (%c)%n"),
    # Confluent's Connect image.
    "connect": Layout("[%d] %p %X{connector.context}%m (%c:%L)%n"),
    # Strimzi, default-logging/KafkaCluster.properties (Kafka 4) and KafkaCluster.log4j1.properties
    # (Kafka 3: ISO8601 is with a space in log4j 1, as DEFAULT is in log4j2).
    "strimzi": Layout("%d{yyyy-MM-dd HH:mm:ss} %-5p [%t] %c{1}:%L - %m%n", "seconds"),
    "strimzi-millis": Layout("%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p [%t] %c{1}:%L - %m%n"),
    "strimzi-log4j1": Layout("%d{DEFAULT} %p %m (%c) [%t]%n"),
    # Spring Boot's, with a process id.
    "spring": Layout(
        "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %5p 1 --- [%15.15t] %-40.40c{1.} : %m%n", "absolute"
    ),
    # The order and the company of the fields.
    "highlight": Layout("%highlight{[%d] %p %m (%c)}%n"),
    "highlight-level": Layout("%style{%d}{dim} %highlight{%-5p} %cyan{%c} - %m%n"),
    "thread-after": Layout("[%d] %p %m (%c) [%t]%n"),
    "context-after": Layout("[%d] %p %m %X (%c)%n"),
    "message-last": Layout("%d [%t] %-5level %logger{36} - %msg%n"),
    "no-level": Layout("[%d] %m (%c)%n"),
    "no-logger": Layout("[%d] %p %m%n"),
    "no-stamp": Layout("%p %m (%c)%n", "none"),
    "stamp-last": Layout("%p %c %m %d%n"),
    "json-by-hand": Layout('{"ts":"%d{ISO8601}","level":"%p","msg":"%enc{%m}{JSON}"}%n'),
    # JsonTemplateLayout's own templates, and the JsonLayout before it.
    "ecs": Layout("EcsLayout.json", "absolute", "template"),
    "logstash": Layout("LogstashJsonEventLayoutV1.json", "absolute", "template"),
    "gcp": Layout("GcpLayout.json", "absolute", "template"),
    "gelf": Layout("GelfLayout.json", "absolute", "template"),
    "template": Layout("JsonLayout.json", "absolute", "template"),
    "json": Layout("", "absolute", "json"),
    "json-millis": Layout("timeMillis compact eventEol", "absolute", "json"),
    "json-compact": Layout("compact eventEol", "absolute", "json"),
    "json-complete": Layout("complete", "absolute", "json"),
    "json-one-line": Layout("compact", "absolute", "json"),
}
# %d's named formats and others, by what they keep. "misread": day before month whatever its name,
# and S as milliseconds padded to as many digits (831 ms are 000831; n is cut instead).
_DATES: dict[Stamp, str] = {
    "local": "ISO8601|ISO8601_BASIC|ISO8601_PERIOD_MICROS|DATE|COMPACT"
    "|yyyy-MM-dd HH:mm:ss.nnnnnnnnn|yyyy-MM-dd HH:mm:ss,SSS z",
    "absolute": "ISO8601_OFFSET_DATE_TIME_HHMM|ISO8601_OFFSET_DATE_TIME_HHCMM|UNIX_MILLIS"
    "|yyyy-MM-dd'T'HH:mm:ss.SSSXXX|yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC",
    "seconds": "UNIX",
    "time": "ABSOLUTE",
    "misread": "US_MONTH_DAY_YEAR4_TIME|yyyy-MM-dd HH:mm:ss.SSSSSS",
}
LAYOUTS |= {
    date: Layout(f"%d{{{date}}} %p %m (%c)%n", stamp)
    for stamp, dates in _DATES.items()
    for date in dates.split("|")
}


def event(line: bytes, zone: str = "UTC", thread: str = THREAD) -> Event:
    """Parses a line of Kafka's default layout, with no LF, whose stamp is of ``zone``."""
    stamp, level, message = CANONICAL.fullmatch(line).groups()
    at = datetime.fromisoformat(stamp.decode()).replace(tzinfo=ZoneInfo(zone))
    return Event(round(at.timestamp() * 1000), level.decode(), message.decode(), thread)


def written(
    events: Sequence[Event], names: Iterable[str] = LAYOUTS, zone: str = "UTC"
) -> dict[str, bytes]:
    """Writes the events in each layout, by one JVM whose time zone is ``zone``."""
    jars = Path(find_spec("pyspark").origin).parent / "jars"
    path = ":".join(str(jar) for jar in jars.glob("*.jar") if re.match("log4j-|jackson-", jar.name))
    rows = [(name, LAYOUTS[name].kind, LAYOUTS[name].argument) for name in names]
    rows += [("",), *((str(e.millis), e.level, e.thread, e.message) for e in events)]
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Duser.timezone={zone}"]
    program = Path(__file__).with_name("Log4j.java")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["java", *options, "-Dfile.encoding=UTF-8", "-cp", path, str(program), folder],
            input="".join("\t".join(row) + "\n" for row in rows).encode(),
            check=True,
        )
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}
