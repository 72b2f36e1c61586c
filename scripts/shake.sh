#!/usr/bin/env bash
# Runs tests again and again on a machine that pauses: `scripts/shake.sh [-n ROUNDS] TEST...`, 20 rounds by default.
# TEST is a file or a name of pytest, and every other word is an option of pytest. What fails here is a race.
#
# Each round runs in a control group that gets 300 ms of processor time in each second. So all its processes pause for
# up to 0.7 s at once, without load. Half of the rounds run at ordinary priority. The others may use real-time priority,
# of which a group permits none by itself: 140 ms in each second, because a quota alone does not pause real-time threads.
# Six rounds run side by side (SHAKE_JOBS), each in namespaces of its own (scripts/isolated.sh). Nothing is tried again.
#
# Needs root. Logs of failed rounds are in build/shake/. ROBOCACHE_SHAKE_KEEP=1 keeps those of all rounds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=20
while getopts n: option; do
  case $option in
    n) rounds=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo 'shake: expected a test: scripts/shake.sh [-n ROUNDS] TEST...' >&2; exit 2; }
jobs=${SHAKE_JOBS:-6}
logs=build/shake
export ROBOCACHE_PROFILE=${ROBOCACHE_PROFILE:-dev}
mkdir -p "$logs"

PERIOD_US=1000000 QUOTA_US=300000 REAL_TIME_US=140000

# Makes the control group $1. Its processes get the quota; real-time threads $2 us of it in each period.
make_group() {
  if [ -e /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
    group=/sys/fs/cgroup/cpu/$1
    mkdir "$group"
    echo "$PERIOD_US" >"$group/cpu.cfs_period_us"
    echo "$QUOTA_US" >"$group/cpu.cfs_quota_us"
    # Without this file, the kernel has no quota of real-time threads, and permits them in each group.
    [ ! -e "$group/cpu.rt_runtime_us" ] || echo "$2" >"$group/cpu.rt_runtime_us"
  else
    group=/sys/fs/cgroup/$1
    mkdir "$group"
    echo "$QUOTA_US $PERIOD_US" >"$group/cpu.max"
  fi
}

# One round: number $1, and the words of pytest. Prints a line if it fails.
round() {
  local number=$1 name priority=ordinary real_time=0 group status=0 began=$SECONDS
  shift
  if ((number % 2)); then priority=real-time real_time=$REAL_TIME_US; fi
  name=robocache_shake_$$_$number
  make_group "$name" "$real_time"
  # Also on kernels without a quota of real-time threads, ordinary means ordinary.
  local limit=(env)
  [ $priority = real-time ] || limit=(prlimit --rtprio=0)
  # The shell moves itself into the group first, so that all it starts is there.
  (
    echo "$BASHPID" >"$group/cgroup.procs"
    exec "${limit[@]}" scripts/isolated.sh scripts/with_ros.sh pytest -q -p no:cacheprovider --basetemp="/tmp/$name" "$@"
  ) >"$logs/$name.log" 2>&1 || status=$?
  # What outlived the test would keep the group.
  while read -r process; do kill -KILL "$process" 2>/dev/null || :; done <"$group/cgroup.procs"
  for _ in 1 2 3 4 5 6 7 8 9 10; do ! rmdir "$group" 2>/dev/null || break; sleep 0.2; done
  rm -rf "/tmp/$name"
  # 5: no test was chosen.
  if [ "$status" -ne 0 ]; then
    printf 'round %d (%s priority) FAILED with %d after %d s: %s\n' \
      "$number" $priority "$status" $((SECONDS - began)) "$logs/$name.log"
    grep -E '^(FAILED|ERROR) ' "$logs/$name.log" || tail -n 3 "$logs/$name.log"
    return 1
  fi
  [ -n "${ROBOCACHE_SHAKE_KEEP:-}" ] || rm -f "$logs/$name.log"
}

failed=0 running=0
for ((number = 0; number < rounds; number++)); do
  if [ "$running" -ge "$jobs" ]; then
    wait -n || failed=$((failed + 1))
    running=$((running - 1))
  fi
  round "$number" "$@" &
  running=$((running + 1))
done
for ((; running > 0; running--)); do
  wait -n || failed=$((failed + 1))
done
printf 'shake: %d of %d rounds passed: %s\n' $((rounds - failed)) "$rounds" "$*"
[ "$failed" -eq 0 ]
