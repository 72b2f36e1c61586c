#!/usr/bin/env bash
# Does what CI will do with the last commit: runs .ci/run in a clone of HEAD. What is wrong in the slow lane decides here.
# Changes that are not committed are left out.
#
# The clone is in the folder ROBOCACHE_REHEARSE, by default ~/.cache/robocache/rehearse: in a folder of this checkout, cargo
# would also read this checkout's .cargo/config.toml. What git ignores stays there (.ros, .cuda, build, install, target),
# so only the first rehearsal is cold. Remove the folder for a cold one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${ROBOCACHE_REHEARSE:-${XDG_CACHE_HOME:-$HOME/.cache}/robocache/rehearse}
clone=$folder/robocache
mkdir -p "$folder"
exec 8>"$folder/lock"
flock --nonblock 8 || { echo "rehearse: error: another rehearsal runs in $folder" >&2; exit 1; }
[ -d "$clone/.git" ] || git clone --quiet --no-checkout . "$clone"
git -C "$clone" fetch --quiet "$PWD" HEAD
git -C "$clone" reset --quiet --hard FETCH_HEAD
git -C "$clone" clean --quiet --force --force -d
echo "rehearse: $(git -C "$clone" log -1 --format='%h %s'), in $clone"
[ -z "$(git status --porcelain)" ] || echo 'rehearse: this checkout has changes that are not committed; they are left out' >&2
cd "$clone"
CI=true ROBOCACHE_SLOW_DECIDES=on bash .ci/run </dev/null
