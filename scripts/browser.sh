#!/usr/bin/env bash
# Provides a browser for tests/python/test_browser.py. If the machine has no browser and the user is root, it installs
# Debian's Chromium. If that is not possible, it says why, and those tests are skipped. With ROBOCACHE_BROWSER=off it
# provides none. The exit code is always 0.
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
[ "$(id -u)" = 0 ] || skipped 'found none, and only root may install one (apt install chromium)'
command -v apt-get >/dev/null || skipped 'found none, and no apt-get to install one'
install=(timeout 120 apt-get -qq -y --no-install-recommends install chromium)
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
if ! "${install[@]}" >"$log" 2>&1; then
  # The lists of packages may be missing or old.
  { timeout 30 apt-get -qq update && "${install[@]}"; } >"$log" 2>&1 || {
    tail -n 3 "$log" >&2
    rm -f "$log"
    skipped 'apt-get cannot install chromium'
  }
fi
rm -f "$log"
echo "browser: installed $(command -v chromium)"
