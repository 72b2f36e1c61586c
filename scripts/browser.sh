#!/usr/bin/env bash
# Provides a browser for tests/python/test_browser.py. If the machine has no browser and the user is root, it installs
# Debian's Chromium. If that is not possible, it says why, and those tests are skipped. With ROBOCACHE_BROWSER=off it
# provides none. The exit code is always 0.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit

found=$(python3 -c 'import browser; print(browser.find() or "")')
if [ -n "$found" ]; then
  echo "browser: $found"
elif [ "${ROBOCACHE_BROWSER:-}" = off ] || ! ./debian.sh chromium; then
  echo 'browser: none; the tests of reports in a browser will be skipped'
fi
