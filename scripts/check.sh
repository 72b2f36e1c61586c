#!/usr/bin/env bash
# Run this before each commit: it checks formats, runs Clippy, and tests the changed crates. After its first run it
# takes under three minutes. It needs neither ROS nor nvcc, so it leaves out the node (src/), crates/rcl and the CUDA
# twins, and crates that use a changed one: `make lint` and `make test` check those. A crate is changed if it differs from BASE, committed or not. By
# default BASE is origin/main, otherwise main, or on main itself the commit before.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
. scripts/phases.sh

base=${BASE:-$(git rev-parse -q --verify origin/main || git rev-parse -q --verify main || git rev-parse HEAD)}
[ "$base" != "$(git rev-parse HEAD)" ] || [ -n "${BASE:-}" ] || base=$(git rev-parse -q --verify HEAD~1 || echo HEAD)
changed=$({ git diff --name-only "$(git merge-base "$base" HEAD)"; git ls-files --others --exclude-standard; } | sort -u)

phase 'cargo fmt' cargo fmt --all --check
phase 'what crates import' python3 scripts/layers.py
phase 'clippy' cargo clippy --locked --all-targets -- -D warnings
packages=()
while read -r crate; do
  ! grep -q "^$crate/" <<<"$changed" || packages+=(-p "robocache_${crate#crates/}")
done < <(sed -n 's/^default-members = //p' Cargo.toml | grep -o 'crates/[a-z_]*')
# Tests of these crates read golden files, configurations and messages, and replay the seeds of the fuzz targets.
! grep -qE '^(tests/(golden|configs|definitions)|config|msg|fuzz)/' <<<"$changed" || packages+=(-p robocache_core -p robocache_tools)
if [ ${#packages[@]} -gt 0 ]; then
  phase "cargo test ${packages[*]}" cargo test --locked -q "${packages[@]}"
fi
if [ -e .ros/env.sh ]; then
  phase 'ruff' scripts/with_ros.sh sh -c 'ruff check -q . && ruff format -q --check .'
fi
! grep -qE '^(src|crates/(rcl|python|kernels)|kernels|python|tests|docs|scripts|cmake|launch)/|^[^/]*$' <<<"$changed" ||
  echo 'changed beyond these crates: make lint and make test check the rest'
summary
