#!/usr/bin/env bash
# Installs a wheel, with extras such as [spark], away from the clone, and replays a recording there.
set -euo pipefail
wheel=$(realpath "$1") recording=$(realpath "$2") extras=${3-} clone=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH
cd "$folder"
"$clone/.venv/bin/python" -m venv venv
time venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint "$clone/constraints.txt" "$wheel$extras"
echo "installed: $(du -sm venv/lib/python*/site-packages | cut -f1) MB"
engine=$([[ $extras == *spark* ]] && echo spark || echo local)
venv/bin/kip-replay run "$recording" --warehouse warehouse --engine "$engine"
venv/bin/kip-replay check --warehouse warehouse
test -s warehouse/report.html
