#!/usr/bin/env bash
# Runs the tests that need torch, LeRobot and Ray: `scripts/test_torch.sh [PYTEST-ARGUMENT...]`. It uses the
# interpreter PYTHON. Otherwise it uses one in .torch, which the first run fills from PyPI (8 GB).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${PYTHON:-}" ]; then
  PYTHON=.torch/bin/python
  if ! cmp -s scripts/requirements-torch.txt .torch/installed.txt; then
    "${PYTHON_BASE:-python3}" -m venv .torch
    "$PYTHON" -m pip install --quiet --disable-pip-version-check -r scripts/requirements-torch.txt
    cp scripts/requirements-torch.txt .torch/installed.txt
  fi
fi
[ -e python/robocache/_native.abi3.so ] || scripts/develop.sh
# Nothing is downloaded: models have no weights, and data sets come from folders.
export HF_HUB_OFFLINE=1 PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}"
exec "$PYTHON" -m pytest -q "${@:-tests/python/torch}"
