#!/usr/bin/env bash
# Runs tests that need large packages: `scripts/test_extra.sh torch|tfds [PYTEST-ARGUMENT...]`. Those of torch need LeRobot and
# Ray, too, those of tfds TensorFlow Datasets. It uses the interpreter PYTHON. Otherwise it uses one in .torch or .tfds,
# which the first run fills from PyPI (8 GB, 2 GB).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  torch | tfds) kind=$1 ;;
  *) echo 'test_extra.sh: expected torch or tfds' >&2 && exit 2 ;;
esac
shift
if [ -z "${PYTHON:-}" ]; then
  PYTHON=.$kind/bin/python
  if ! cmp -s "scripts/requirements-$kind.txt" ".$kind/installed.txt"; then
    "${PYTHON_BASE:-python3}" -m venv ".$kind"
    "$PYTHON" -m pip install --quiet --disable-pip-version-check -r "scripts/requirements-$kind.txt"
    cp "scripts/requirements-$kind.txt" ".$kind/installed.txt"
  fi
fi
[ -e python/robocache/_native.abi3.so ] || scripts/develop.sh
# Nothing is downloaded: models have no weights, and data sets come from folders.
export HF_HUB_OFFLINE=1 PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}"
exec "$PYTHON" -m pytest -q "${@:-tests/python/$kind}"
