"""Wraps log lines as what carries them does: container runtimes, collectors, log services.

Each of ``WRAPPERS`` gets lines with no LF, and when the carrier read each (microseconds since the
epoch; its clock is a little later than the lines' own stamps).
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

POD = "kafka-0"


class Record(NamedTuple):
    """A line, or a part of one (``last``: its last), as a carrier has it."""

    text: bytes
    stamp_us: int
    pod: str = POD
    stream: str = "stdout"
    last: bool = True


class Wrapper(NamedTuple):
    """A carrier's format, and what becomes of a line of more than ``limit`` bytes."""

    line: str
    long: Literal["keeps", "splits", "cuts"] = "keeps"
    limit: int | None = None
    head: str = ""
    between: str = ""
    foot: str = ""
    indent: int | None = None

    def wrapped(self, lines: list[bytes], stamps_us: list[int], pod: str = POD) -> bytes:
        return self.of(map(Record, lines, stamps_us, [pod] * len(lines)))

    def of(self, records: Iterable[Record], limit: int | None = None) -> bytes:
        """Wraps records in their order. ``limit`` replaces the carrier's; if it has none, cuts."""
        records, size = list(records), limit or self.limit
        if size and self.long == "splits":
            records = [part for record in records for part in parts(record, size)]
        elif size:
            records = [r._replace(text=r.text[:size]) for r in records]
        width = max((len(r.pod) for r in records), default=0)
        text = self.between.join(self.line % _fields(r, width) for r in records)
        text = self.head + text + self.foot
        if self.indent:
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=self.indent)
        return text.encode("utf-8", "surrogateescape")


class _Loki(Wrapper):
    def of(self, records: Iterable[Record], limit: int | None = None) -> bytes:
        pod = attrgetter("pod")
        streams = [
            {"stream": {"pod": name}, "values": json.loads(super(_Loki, self).of(group, limit))}
            for name, group in groupby(sorted(records, key=pod), pod)
        ]
        data = {"resultType": "streams", "result": streams}
        return json.dumps({"status": "success", "data": data}, ensure_ascii=False).encode()


def parts(record: Record, size: int) -> Iterator[Record]:
    """Splits a record after each ``size`` bytes, within a character if need be."""
    for at in range(0, max(len(record.text), 1), size):
        text, last = record.text[at : at + size], record.last and at + size >= len(record.text)
        yield record._replace(text=text, stamp_us=record.stamp_us + at // size, last=last)


def mixed(*logs: Iterable[Record], newest_first: bool = False) -> list[Record]:
    """Merges logs of several pods or streams by their stamps; given parts, between those too."""
    merged = sorted((record for log in logs for record in log), key=lambda r: r.stamp_us)
    return merged[::-1] if newest_first else merged


def noise(stamps_us: Iterable[int], pod: str = POD) -> Iterator[Record]:
    """Yields what else a broker writes: a line of another logger and, on stderr, a stack trace."""
    for us in stamps_us:
        at = f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"
        text = f"[{at},{us // 1000 % 1000:03d}] WARN {{}} request:{{ (kafka.server.KafkaApis)"
        yield Record(text.encode(), us, pod)
        yield Record(b"java.io.IOException: Broken pipe", us, pod, "stderr")
        yield Record(b"\tat java.base/sun.nio.ch.IOUtil.write(IOUtil.java:62)", us, pod, "stderr")


def _array(line: str, head: str = "[", foot: str = "]", indent: int | None = None) -> Wrapper:
    return Wrapper(line, head=head, between=",", foot=foot, indent=indent)


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _fields(r: Record, width: int) -> dict[str, object]:
    at = datetime.fromtimestamp(r.stamp_us // 1_000_000, UTC)
    iso, us = f"{at:%Y-%m-%dT%H:%M:%S}", f"{r.stamp_us % 1_000_000:06d}"
    text = r.text.decode("utf-8", "replace")
    # journald strips each part; unprintable text is an array of bytes.
    stripped = r.text.strip()
    printable = not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", stripped)
    journal = _json(text.strip()) if printable else json.dumps(list(stripped))
    as_bytes = {
        "text": r.text,
        # journalctl's short formats drop colours.
        "bare": re.sub(rb"\x1b\[[0-9;]*m", b"", stripped).replace(b"\t", b" " * 8),
        # rsyslog's $EscapeControlCharactersOnReceive.
        "octal": re.sub(rb"[\x00-\x1f\x7f]", lambda c: b"#%03o" % ord(c[0]), r.text),
    }
    return {
        **r._asdict(),
        **{k: v.decode("utf-8", "surrogateescape") for k, v in as_bytes.items()},
        "json": _json(text),
        "json_lf": _json(text + "\n" * r.last),
        # Go and Docker write JSON that is safe within HTML.
        "go_json": re.sub("[<>&\u2028\u2029]", lambda c: f"\\u{ord(c[0]):04x}", _json(text)),
        "journal": journal,
        "journal_null": journal if len(stripped) + len("MESSAGE=") < 4096 else "null",
        "line_break": "" if r.last else ',"_LINE_BREAK":"line-max"',
        "csv": '"' + text.replace('"', '""') + '"',
        "lf": "\n" * r.last,
        "tag": "F" if r.last else "P",
        "padded": r.pod.ljust(width),
        "iso": iso,
        "date": iso.replace("T", " "),
        "us": us,
        # RFC3339Nano drops zeros at the end.
        "go": re.sub(r"\.?0*$", "", f"{iso}.{us}") + "Z",
        "bsd": f"{at:%b %e %H:%M:%S}",
        "month_day": f"{at:%b %d %H:%M:%S}",
        "epoch": r.stamp_us // 1_000_000,
        "epoch_ms": r.stamp_us // 1000,
    }


_16_KIB = ("splits", 16_384)
_48_KIB = ("splits", 49_152)
_NANO = "%(iso)s.%(us)s000Z"
_PODS = '"kubernetes":{"pod_name":"%(pod)s","namespace_name":"kafka","container_name":"kafka"}}\n'
_BEAT = (
    '"@timestamp":"%(iso)s.%(us).3sZ","message":%(json)s,"stream":"%(stream)s",'
    '"kubernetes":{"namespace":"kafka","pod":{"name":"%(pod)s"},"container":{"name":"kafka"}}}'
)
_HIT = '{"_index":"logs","_id":"%(stamp_us)s","_score":null,"_source":{' + _BEAT + "}"
_AWS = '"timestamp":%(epoch_ms)s,"message":%(json)s,"ingestionTime":%(epoch_ms)s}'
_AWS_FOUND = '{"logStreamName":"%(pod)s",' + _AWS
_GOOGLE = (
    '"logName":"projects/p/logs/%(stream)s","resource":{"labels":{"pod_name":"%(pod)s"},'
    '"type":"k8s_container"},"timestamp":"%(iso)s.%(us)s000Z"}'
)
_JOURNAL = (
    '{"__REALTIME_TIMESTAMP":"%(stamp_us)s","_HOSTNAME":"%(pod)s","SYSLOG_IDENTIFIER":"kafka",'
    '"MESSAGE":%(journal)s%(line_break)s}\n'
)
_FLUENT_BIT = (
    '{"date":%(epoch)s.%(us)s,"stream":"%(stream)s","logtag":"%(tag)s","log":%(json)s,' + _PODS
)
_SPLUNK = (
    '{"preview":false,"result":{"_raw":%(json)s,"_time":"%(date)s.%(us).3s UTC",'
    '"host":"%(pod)s"}}\n'
)

WRAPPERS: dict[str, Wrapper] = {
    # kubernetes/kubernetes, kubelet/kuberuntime/logs/logs.go; until its pull request 113481 (1.26),
    # as docker logs --timestamps still does (docker/cli, issue 4941), it stamped parts of a line.
    "kubectl-timestamps": Wrapper(f"{_NANO} %(text)s\n"),
    "kubectl-timestamps-1.25": Wrapper(f"{_NANO} %(text)s%(lf)s", *_16_KIB),
    # kubernetes.io/docs/reference/kubectl/generated/kubectl_logs: --prefix
    "kubectl-prefix": Wrapper("[pod/%(pod)s/kafka] %(text)s\n"),
    "kubectl-prefix-timestamps": Wrapper(f"[pod/%(pod)s/kafka] {_NANO} %(text)s\n"),
    # containerd/containerd, internal/cri/io/logger.go
    "cri": Wrapper("%(go)s %(stream)s %(tag)s %(text)s\n", *_16_KIB),
    # containers/conmon, src/ctr_logging.c: write_k8s_log, with the node's zone
    "cri-o": Wrapper("%(iso)s.%(us)s000+00:00 %(stream)s %(tag)s %(text)s\n", "splits", 8_192),
    # moby/moby, daemon/logger/copier.go, jsonfilelog/jsonlog/jsonlogbytes.go
    "docker-json": Wrapper('{"log":%(json_lf)s,"stream":"%(stream)s","time":"%(go)s"}\n', *_16_KIB),
    # docs.docker.com/reference/cli/docker/compose/logs
    "compose": Wrapper("%(padded)s  | %(text)s\n"),
    # stern/stern, cmd/cmd.go: templates default and json
    "stern": Wrapper("%(pod)s kafka %(text)s\n"),
    "stern-json": Wrapper(
        '{"message":%(go_json)s,"nodeName":"node-1","namespace":"kafka","podName":"%(pod)s",'
        '"containerName":"kafka"}\n'
    ),
    # rsyslog.com/doc/configuration/templates.html: RSYSLOG_TraditionalFileFormat, _FileFormat,
    # _SyslogProtocol23Format; maxMessageSize is 8k
    "syslog": Wrapper("%(bsd)s %(pod)s kafka[1]: %(octal)s\n", "cuts", 8_192),
    "syslog-iso": Wrapper("%(iso)s.%(us)s+00:00 %(pod)s kafka[1]: %(octal)s\n", "cuts", 8_192),
    "syslog-5424": Wrapper("<15>1 %(iso)s.%(us)sZ %(pod)s kafka 1 - - %(octal)s\n", "cuts", 8_192),
    # systemd/systemd, src/shared/logs-show.c; journald.conf(5): LineMax; journalctl(1): --all
    "journald-short": Wrapper("%(month_day)s %(pod)s kafka[1]: %(bare)s\n", *_48_KIB),
    "journald-short-precise": Wrapper(
        "%(month_day)s.%(us)s %(pod)s kafka[1]: %(bare)s\n", *_48_KIB
    ),
    "journald-short-iso": Wrapper("%(iso)s+00:00 %(pod)s kafka[1]: %(bare)s\n", *_48_KIB),
    "journald-json": Wrapper(_JOURNAL.replace("journal)", "journal_null)"), *_48_KIB),
    "journald-json-all": Wrapper(_JOURNAL, *_48_KIB),
    # docs.fluentd.org/formatter/out_file and json; a line read of docker-json keeps its LF
    "fluentd": Wrapper('%(iso)s+00:00\tkafka\t{"log":%(json_lf)s,' + _PODS),
    "fluentd-json": Wrapper('{"log":%(json_lf)s,"stream":"%(stream)s",' + _PODS),
    # docs.fluentbit.io: outputs/stdout (json_lines), filters/kubernetes, parser cri
    "fluent-bit": Wrapper(_FLUENT_BIT, *_16_KIB),
    # vector.dev/docs/reference/configuration/sources/kubernetes_logs
    "vector": Wrapper(
        '{"kubernetes":{"pod_name":"%(pod)s"},"message":%(json)s,"timestamp":"%(go)s"}\n'
    ),
    # elastic.co/docs/reference/beats/filebeat/exported-fields-kubernetes-processor
    "filebeat": Wrapper("{" + _BEAT + "\n"),
    # elastic.co/docs/reference/logstash/ecs-ls: event.original is the message once more
    "logstash": Wrapper('{"@version":"1","event":{"original":%(json)s},' + _BEAT + "\n"),
    # grafana/loki, pkg/logcli/output: default.go, jsonl.go, raw.go
    "logcli": Wrapper('%(iso)sZ {container="kafka", pod="%(pod)s"} %(text)s\n'),
    "logcli-jsonl": Wrapper(
        '{"labels":{"container":"kafka","pod":"%(pod)s"},"line":%(go_json)s,"timestamp":"%(go)s"}\n'
    ),
    "logcli-raw": Wrapper("%(text)s\n"),
    # grafana.com/docs/loki/latest/reference/loki-http-api: query_range
    "loki-api": _Loki('["%(stamp_us)s000",%(json)s]', head="[", between=",", foot="]"),
    # aws/aws-cli, awscli/customizations/logs/tail.py: detailed, short
    "cloudwatch-tail": Wrapper("%(iso)s.%(us).3s000+00:00 %(pod)s %(text)s\n"),
    "cloudwatch-tail-short": Wrapper("%(iso)s %(text)s\n"),
    # docs.aws.amazon.com/cli/latest/reference/logs: filter-log-events, get-log-events
    "cloudwatch-filter": _array(_AWS_FOUND, '{"events":[', '],"searchedLogStreams":[]}', 4),
    "cloudwatch-compact": _array(_AWS_FOUND, '{"events":[', '],"searchedLogStreams":[]}'),
    "cloudwatch-get": _array("{" + _AWS, '{"events":[', '],"nextForwardToken":"f"}', 4),
    # docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_AnalyzeLogData_Export
    "cloudwatch-insights": Wrapper("%(date)s.%(us).3s,%(csv)s\n", head="@timestamp,@message\n"),
    # cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry
    "gcloud": _array('{"textPayload":%(json)s,' + _GOOGLE, indent=2),
    "gcloud-json": _array('{"jsonPayload":{"message":%(json)s},' + _GOOGLE, indent=2),
    # docs.splunk.com: search/v2/jobs/export; props.conf: TRUNCATE is 10,000 bytes
    "splunk": Wrapper(_SPLUNK, "cuts", 10_000),
    "splunk-csv": Wrapper(
        '"%(iso)s.%(us).3s+0000","%(pod)s",%(csv)s\n', "cuts", 10_000, head='"_time",host,"_raw"\n'
    ),
    # elastic.co/docs/api/doc/elasticsearch/operation/operation-search
    "elasticsearch": _array(_HIT, '{"took":3,"hits":{"hits":[', "]}}"),
    # elasticsearch-dump/elasticsearch-dump, README: a hit on each line
    "elasticdump": Wrapper(_HIT + "\n"),
}
