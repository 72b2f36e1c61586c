#!/usr/bin/env bash
# Installs the newest wheel in dist/ for this machine into an environment of its own, .wheel/test, and tests it there: its
# bits are those that x86-64 has written (make test-wheel). A release publishes no wheel that has not passed.
#
# Environment: PYTHON (makes the environment), ROBOCACHE_WHEEL (another wheel).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

environment=.wheel/test
# shellcheck disable=SC2012 # our own names
wheel=${ROBOCACHE_WHEEL:-$(ls -t dist/*manylinux*"_$HOSTTYPE.whl" 2>/dev/null | head -n 1)} || true
[ -n "$wheel" ] || { echo 'test-wheel: error: expected a wheel in dist/: make wheel' >&2; exit 1; }
rm -rf "$environment"
"${PYTHON:-python3}" -m venv "$environment"
# shellcheck disable=SC2046 # a list
"$environment/bin/pip" install -q --disable-pip-version-check "$wheel" \
  $(grep -E '^(pillow|pytest|pytest-timeout|xxhash|rosbags|mcap|mcap-ros2-support|zarr|xarray)==' scripts/requirements-test.txt) \
  $(grep -E '^(numpy|pyyaml)==' scripts/requirements-ros.txt)
env -u PYTHONPATH ROBOCACHE="$PWD/$environment/bin/robocache" "$environment/bin/python" -m pytest -q \
  -p no:cacheprovider tests/python/test_same_bits.py
