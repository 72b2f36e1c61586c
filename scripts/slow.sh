#!/usr/bin/env bash
# Runs the slow lane: tests that are long, or about real time. `scripts/slow.sh [GROUP...]`, all groups by default. With
# `--of-commit` it runs the group that the hash of the last commit picks, as CI does.
#
# Each group takes three minutes at most: kills (processes are killed and suspended, again and again), speeds (robots
# in real time), floods (best effort, and more than the node can take), browser (reports in one), images (large ones), and
# soak (two minutes of tests/soak). It runs on the build of `make test`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
repo=$PWD
export ROBOCACHE_PROFILE=dev
. scripts/ros_folders.sh
. scripts/phases.sh
. scripts/test_phases.sh

all=(kills speeds floods browser images soak)
groups=("$@")
case ${1:-} in
  '') groups=("${all[@]}") ;;
  --of-commit)
    hash=$(git rev-parse --short=8 HEAD)
    groups=("${all[$((16#${hash:0:8} % ${#all[@]}))]}")
    echo "slow: the hash of the last commit, $hash, picks ${groups[*]}"
    ;;
esac

for group in "${groups[@]}"; do
  [[ " ${all[*]} " == *" $group "* ]] || { echo "slow: expected ${all[*]}, found $group" >&2; exit 2; }
done

build_phases
for group in "${groups[@]}"; do
  tests=(scripts/with_ros.sh pytest -q "${workers[@]}" --durations=5 --slow "$group")
  case $group in
    kills | speeds | floods | images) limit_s=300 phase "slow: $group" "${tests[@]}" --dist=loadgroup tests/ros ;;
    browser)
      phase 'set-up of a browser' scripts/browser.sh
      limit_s=300 phase "slow: $group" "${tests[@]}" --dist=loadfile tests/python
      ;;
    soak) limit_s=300 phase "slow: $group" scripts/with_ros.sh python3 tests/soak/soak.py --seconds 120 ;;
  esac
done
summary
