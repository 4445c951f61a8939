#!/usr/bin/env bash
# Installs a wheel into an empty environment and replays a recording there, away from the clone.
set -euo pipefail
wheel=$(realpath "$1") recording=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$(realpath -s .venv/bin/python)
cd "$folder"
"$python" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check "$wheel"
env -u PYTHONPATH venv/bin/kip-replay run "$recording" --warehouse warehouse
test -s warehouse/report.html
