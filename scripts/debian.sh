#!/usr/bin/env bash
# Installs a package of Debian that has the program of its name: `scripts/debian.sh PACKAGE`. If the program is there, it does
# nothing. If it cannot be installed, it says why, with exit code 1. Only root can.
set -uo pipefail
package=$1

fail() {
  echo "debian: expected $package, found none, and $1 (apt install $package)" >&2
  exit 1
}

! command -v "$package" >/dev/null || exit 0
[ "$(id -u)" = 0 ] || fail 'only root may install it'
command -v apt-get >/dev/null || fail 'no apt-get to install it'
export DEBIAN_FRONTEND=noninteractive

# The lists of packages may be missing or old, so only the first try does without new ones.
install() { # the number of the try
  [ "$1" -eq 1 ] || timeout 60 apt-get -qq update || return
  timeout 120 apt-get -qq -y --no-install-recommends install "$package"
}

said='' try=1
until said=$(install "$try" 2>&1); do
  if [ "$try" -gt 1 ] && ! grep -qE 'Failed to fetch|Could not (resolve|connect)|Temporary failure|timed out' <<<"$said"; then
    tail -n 3 <<<"$said" >&2
    fail 'apt-get cannot install it'
  fi
  [ "$try" -lt 3 ] || fail 'ENVIRONMENT: the package index was not reachable'
  try=$((try + 1))
  sleep 10
done
echo "debian: installed $(command -v "$package")"
