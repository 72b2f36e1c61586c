#!/usr/bin/env bash
# Sees to a browser for python/tests/test_browser.py, if that is possible: installs Debian's Chromium if there is
# no browser, and this is root. If there will be none, those tests are skipped, and this says why.
# ROBOCACHE_BROWSER=off leaves it out. The exit code is 0 in any case.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

skipped() {
  echo "browser: $1; the tests of reports in a browser will be skipped"
  exit 0
}

found=$(python3 -c 'import browser; print(browser.find() or "")')
if [ -n "$found" ]; then
  echo "browser: $found"
  exit 0
fi
[ "${ROBOCACHE_BROWSER:-}" != off ] || skipped 'ROBOCACHE_BROWSER=off'
[ "$(id -u)" = 0 ] || skipped 'there is none, and only root may install one (apt install chromium)'
command -v apt-get >/dev/null || skipped 'there is none, and no apt-get'
install=(timeout 120 apt-get -qq -y --no-install-recommends install chromium)
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
if ! "${install[@]}" >"$log" 2>&1; then
  # Lists of packages that are missing or old.
  { timeout 30 apt-get -qq update && "${install[@]}"; } >"$log" 2>&1 || {
    tail -n 3 "$log" >&2
    rm -f "$log"
    skipped 'apt-get cannot install chromium'
  }
fi
rm -f "$log"
echo "browser: installed $(command -v chromium)"
