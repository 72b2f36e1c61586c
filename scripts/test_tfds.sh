#!/usr/bin/env bash
# Runs the tests that need TensorFlow Datasets: `scripts/test_tfds.sh [PYTEST-ARGUMENT...]`. It uses the interpreter PYTHON.
# Otherwise it uses one in .tfds, which the first run fills from PyPI (2 GB).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${PYTHON:-}" ]; then
  PYTHON=.tfds/bin/python
  if ! cmp -s scripts/requirements-tfds.txt .tfds/installed.txt; then
    "${PYTHON_BASE:-python3}" -m venv .tfds
    "$PYTHON" -m pip install --quiet --disable-pip-version-check -r scripts/requirements-tfds.txt
    cp scripts/requirements-tfds.txt .tfds/installed.txt
  fi
fi
[ -e python/robocache/_native.abi3.so ] || scripts/develop.sh
export PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}"
exec "$PYTHON" -m pytest -q "${@:-tests/python/tfds}"
