#!/usr/bin/env bash
# Runs the tests that read published data: `scripts/test_real.sh [PYTEST-ARGUMENT...]`. ROBOCACHE_REAL_DATA is the folder of
# the data. It uses the interpreter PYTHON, or that of the ROS environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ ! -d "${ROBOCACHE_REAL_DATA:-}" ]; then
  echo "test-real: expected the folder of the published data, found '${ROBOCACHE_REAL_DATA:-}': make test-real DATA=FOLDER" >&2
  exit 2
fi
[ -e python/robocache/_native.abi3.so ] || scripts/develop.sh
if [ -n "${PYTHON:-}" ]; then
  export PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}"
  exec "$PYTHON" -m pytest -q "${@:-tests/real}"
fi
scripts/setup.sh --tests
exec scripts/with_ros.sh pytest -q "${@:-tests/real}"
