"""A Java agent that puts what is in no release into released brokers: see Agent.java."""

import subprocess
from pathlib import Path

from live.artifacts import class_path

_HERE = Path(__file__).resolve().parent
_BUILT = _HERE.parents[2] / ".venv" / "kafka"


def agent_jar(version: str) -> Path:
    """The agent, compiled against a version of Kafka, in which classes it uses may have moved."""
    jar, classes = _BUILT / f"agent-{version}.jar", _BUILT / f"agent-{version}"
    sources = sorted(_HERE.rglob("*.java"))
    newest = max(file.stat().st_mtime for file in sources)
    if not jar.exists() or jar.stat().st_mtime < newest:
        compiled = ["javac", "--release", "17", "-proc:none", "-cp", class_path(version)]
        subprocess.run([*compiled, "-d", classes, *sources], check=True)
        packed = ["jar", "--create", "--file", jar, "--manifest", _HERE / "MANIFEST.MF"]
        subprocess.run([*packed, "-C", classes, "."], check=True)
    return jar
