"""Lets Kafka's own classes answer histories: python -m kafka_oracle SEED [FOLDER]."""

import gzip
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from live.artifacts import class_path

VERSION = "4.1.1"
#: By kind, how many are drawn.
COUNTS = {"select": 400, "replica": 80, "partition": 80, "leader": 120, "brokers": 70}
COUNTS |= {"cache": 150, "sessions": 40}
_HERE = Path(__file__).parent


def main(seed: str, folder: Path) -> None:
    with TemporaryDirectory() as classes:
        jars = class_path(VERSION)
        sources = sorted((_HERE / "java").rglob("*.java"))
        compiled = ["javac", "-nowarn", "-cp", jars, "-d", classes, *map(str, sources)]
        subprocess.run(compiled, check=True)
        for kind, count in COUNTS.items():
            java = ["java", "-cp", f"{classes}:{jars}", "Oracle", kind, seed, str(count)]
            answers = subprocess.run(java, check=True, stdout=subprocess.PIPE).stdout
            packed = gzip.compress(answers, 9, mtime=0)
            (folder / f"{kind}.jsonl.gz").write_bytes(packed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else _HERE))
