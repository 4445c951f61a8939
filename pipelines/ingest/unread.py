"""Says of lines that give no request what they are, in place of advice that does not fit them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.line_accounting import Counts, FileKey
from kip_replay.pipelines.ingest.parse_task import Parsed, Unread
from kip_replay.replay.kafka.request_log import Reason

_SHOWN_CHARACTERS = 120
_LOGGERS_SHOWN = 3


def what_they_are(loggers: Mapping[str, int]) -> str:
    """Lines of other loggers, the most frequent ones by name."""
    if not loggers:
        return "no line of kafka.request.logger at DEBUG"
    most = Counter(loggers).most_common(_LOGGERS_SHOWN)
    named = ", ".join(f"{name} ({count:,})" for name, count in most)
    more = ", ..." if len(loggers) > _LOGGERS_SHOWN else ""
    return f"lines of other loggers ({named}{more}) and none of kafka.request.logger at DEBUG"


def unread_lines(parsed: Sequence[Parsed], recording: str) -> list[str]:
    """For each reason the first line of a recording that cannot be read, as far as it is kept."""
    first: dict[str, Unread] = {}
    unread = [(name, line) for of in parsed for (name, _), line in of.unread.items()]
    for line in (line for name, line in unread if name == recording):
        first[line.reason] = min(first.get(line.reason, line), line)
    return [unread_sentence(line) for _, line in sorted(first.items())]


def unread_sentence(line: Unread) -> str:
    """Names a line, why it cannot be read, and its beginning, without what terminals obey."""
    why = Reason[line.reason].value + (f" ({line.detail})" if line.detail else "")
    begin = f" It begins: {ascii(line.text[:_SHOWN_CHARACTERS])[1:-1]}" if line.text else ""
    return f"{line.source_file} line {line.line_number:,} ({line.reason}): {why}{begin}"


def none_read(
    recording: str, total: Counts, lines: Sequence[str], loggers: Mapping[str, int]
) -> str | None:
    """Says why not one of a recording's lines was read as a request; None where one was.

    ``lines`` are sentences on some that could not be, ``loggers`` those of all others.
    """
    if total.requests + total.repeated or not (total.lines or total.outside):
        return None
    if total.outside:
        return (
            f"none of the {total.outside:,} requests of recording {recording!r} was completed "
            "in that time: correct --from and --until, or the time zone"
        )
    return (
        f"of {total.lines:,} lines of recording {recording!r} none can be read as a request, "
        f"so nothing was written: {'; '.join(lines) or f'they are {what_they_are(loggers)}'}"
    )


def require_requests(
    parsed: Sequence[Parsed], counts: Mapping[FileKey, Counts], known: Collection[str]
) -> None:
    """Raises UserError for a recording not ``known`` of whose lines not one is a request."""
    for recording in sorted({name for name, _, _ in counts}.difference(known)):
        total = sum((c for (name, *_), c in counts.items() if name == recording), Counts())
        loggers = Counter[str]()
        for of in parsed:
            loggers.update({name: n for (r, name), n in of.loggers.items() if r == recording})
        if text := none_read(recording, total, unread_lines(parsed, recording), loggers):
            raise UserError(text)
