"""``kip-replay run`` as a whole, from raw logs to the report: how it grows, and how it starts.

The job runs in a process of its own on the two cores. Its stages are read off what it prints: the
last line has the seconds of each phase, and a line ``replay RULE:`` shows when a rule began. What
comes before the first phase and after the last (the interpreter, imports) is the time of the
process less the phases.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from recorded_logs import folder_of

from .long_recording import write_recording
from .processes import CORES, Run, run

#: Brokers of 4.2 under produce, fetch, ISR changes and failovers: every rule has work to do.
SOURCE = "mixed-4.2"
MB = 1_000_000
#: Of one repetition of the source.
ONCE_MB = 21
TIMES = (1, 4, 16)
START_MB = 1
_PHASE = re.compile(r"(\w[\w ]*?) (\d+\.\d+)(?:, |$)")
_RULE = re.compile(r"replay (\w+): ")
_REPLAY = "replay"


class WholeJob(NamedTuple):
    """One run on a log of so many bytes and lines (requests)."""

    name: str
    log_bytes: int
    requests: int
    run: Run
    phases_s: Mapping[str, float]
    rules_s: Mapping[str, float]

    @property
    def outside_s(self) -> float:
        """The interpreter and imports."""
        return self.run.process_s - sum(self.phases_s.values())


def whole_jobs(folder: Path, quick: bool) -> Iterator[WholeJob]:
    """A log of 1 MB, once more with nothing to do, and logs of 1, 4 and 16 times a recording (a
    quick run: 1 and 4)."""
    sizes_mb = {("1 MB", "again"): START_MB}
    # From the second repetition on, lines are a little longer.
    sizes_mb |= {(f"{n}x",): n * ONCE_MB for n in (TIMES[:2] if quick else TIMES)}
    recording, warehouse = folder / "recording", folder / "warehouse"
    for names, size_mb in sizes_mb.items():
        size = write_recording(recording, folder_of(SOURCE), size_mb * MB)
        for name in names:
            yield run_job(name, recording, warehouse, size)
        shutil.rmtree(warehouse)
        shutil.rmtree(recording)


def run_job(name: str, recording: Path, warehouse: Path, size: tuple[int, int]) -> WholeJob:
    """Runs the job once; ``size`` is bytes and lines of the log. Raises RuntimeError."""
    command = ["-m", "kip_replay.jobs.run", str(recording), "--warehouse", str(warehouse)]
    done = run(command, CORES)
    text = [line for _, line in done.printed]
    # 3: a log made by repetition may fall short of a quality check, and took its time all the same.
    if done.status not in (0, 3) or not text[-1].startswith("seconds: "):
        raise RuntimeError(f"status {done.status}: {' / '.join(text[-5:])}")
    phases = phases_of(text[-1])
    return WholeJob(name, *size, done, phases, rules_of(done.printed, phases))


def phases_of(line: str) -> dict[str, float]:
    """``seconds: a 1.0, b c 2.0, in all 3.0`` by name, the sum left out."""
    found = _PHASE.findall(line.partition(": ")[2])
    return {name: float(seconds) for name, seconds in found if name != "in all"}


def rules_of(said: Sequence[tuple[float, str]], phases: Mapping[str, float]) -> dict[str, float]:
    """Seconds from each line that begins a rule's replay to the next; the phase bounds the last."""
    began = [(match[1], at) for at, line in said if (match := _RULE.match(line))]
    if not began:
        return {}
    # What the phase does before its first rule is little, and counts as the last rule's.
    end = began[0][1] + phases[_REPLAY]
    times = [at for _, at in began]
    return {rule: until - at for (rule, at), until in zip(began, [*times[1:], end], strict=True)}
