#!/usr/bin/env bash
# Provides a browser for tests/python/test_browser.py. If the machine has no browser and the user is root, it installs
# Debian's Chromium. If that is not possible, it says why, and those tests are skipped. With ROBOCACHE_BROWSER=off it
# provides none. The exit code is always 0.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit

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
export DEBIAN_FRONTEND=noninteractive

# Installs Chromium. The lists of packages may be missing or old, so only the first try does without new ones.
install() { # the number of the try
  [ "$1" -eq 1 ] || timeout 60 apt-get -qq update || return
  timeout 120 apt-get -qq -y --no-install-recommends install chromium
}

said='' try=1
until said=$(install "$try" 2>&1); do
  if [ "$try" -gt 1 ] && ! grep -qE 'Failed to fetch|Could not (resolve|connect)|Temporary failure|timed out' <<<"$said"; then
    tail -n 3 <<<"$said" >&2
    skipped 'apt-get cannot install chromium'
  fi
  [ "$try" -lt 3 ] || skipped 'ENVIRONMENT: the package index was not reachable'
  try=$((try + 1))
  sleep 10
done
echo "browser: installed $(command -v chromium)"
