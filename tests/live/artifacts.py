"""Kafka's artifacts from Maven Central, as class paths; pom.xml pins what goes with them."""

import subprocess
from functools import cache
from pathlib import Path

#: The newest patch of each line, the oldest first.
VERSIONS = ("3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0")
#: Of the clients that make the load, the same for brokers of any version.
CLIENTS = "4.3.1"
_HERE = Path(__file__).resolve().parent
#: What a fresh environment has to fetch again goes with it.
_CACHE = _HERE.parents[1] / ".venv" / "kafka"
#: Java that puts what is in no release into released brokers: see Agent.java.
_AGENT = _HERE / "agent"


@cache
def class_path(version: str, artifact: str = "kafka_2.13") -> str:
    """The jars of an artifact of Kafka and of all that it needs."""
    kept = _CACHE / f"{artifact}-{version}.classpath"
    if not kept.exists() or not all(Path(jar).exists() for jar in kept.read_text().split(":")):
        kept.parent.mkdir(parents=True, exist_ok=True)
        pins = [f"-Dkafka.version={version}", f"-Dartifact={artifact}"]
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={kept}"]
        done = subprocess.run(
            ["mvn", "-q", "-B", "-f", _HERE, *pins, *goal], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"Maven found no {artifact} {version}:\n{done.stdout[-2000:]}")
    # Kafka 3 logs by log4j 1, and slf4j takes the first of several.
    other = "log4j-slf4j-impl" if version.startswith("3.") else "reload4j"
    return ":".join(jar for jar in kept.read_text().split(":") if other not in jar)


def agent_jar(version: str) -> Path:
    """The agent, compiled against a version of Kafka, in which classes it uses may have moved."""
    jar, classes = _CACHE / f"agent-{version}.jar", _CACHE / f"agent-{version}"
    sources = sorted(_AGENT.rglob("*.java"))
    newest = max(file.stat().st_mtime for file in sources)
    if not jar.exists() or jar.stat().st_mtime < newest:
        compiled = ["javac", "--release", "17", "-proc:none", "-cp", class_path(version)]
        subprocess.run([*compiled, "-d", classes, *sources], check=True)
        packed = ["jar", "--create", "--file", jar, "--manifest", _AGENT / "MANIFEST.MF"]
        subprocess.run([*packed, "-C", classes, "."], check=True)
    return jar
