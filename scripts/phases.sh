# shellcheck shell=bash
# For scripts that run commands one after the other. They source this file. `phase NAME COMMAND...`
# runs and times the command; after a failure the script goes on. `summary` prints all phases. Its
# exit status is 0 only if all phases passed.
#
# `limit_s=SECONDS phase NAME COMMAND...` sets how long the command may take: 1800 s by default, 0 for ever. Then it gets
# SIGINT, as from Ctrl-C, and 30 s later SIGKILL. A function of the script has no limit.

phase_lines=()
phase_failed=0

phase() {
  local name=$1 started=$SECONDS verdict=ok most_s=${limit_s:-1800}
  shift
  # Bash exports it. Without this, phases of a script that the command runs would have it too.
  unset limit_s
  printf '\n=== %s\n' "$name"
  phase_status=0
  if [ "$most_s" -eq 0 ] || declare -F "$1" >/dev/null; then
    "$@" || phase_status=$?
  else
    within "$most_s" "$@" || phase_status=$?
  fi
  if [ "$phase_status" -ne 0 ]; then
    verdict="FAILED (exit code $phase_status)"
    phase_failed=1
  fi
  # The exit codes of timeout: 124, and 137 if the command did not heed SIGINT.
  case $phase_status in 124 | 137)
    [ "$most_s" -eq 0 ] || [ $((SECONDS - started)) -lt "$most_s" ] ||
      verdict="FAILED (took longer than $most_s s)" ;;
  esac
  phase_lines+=("$(printf '%6d s  %-40s %s' "$((SECONDS - started))" "$name" "$verdict")")
  return 0
}

# within SECONDS COMMAND...: ends the command after this time.
#
# timeout puts the processes of the command into a group of their own, and ends the whole group. Ctrl-C does not reach that
# group, so the traps pass it on.
within() {
  local status=0 running
  timeout --signal=INT --kill-after=30 "$@" &
  running=$!
  trap 'kill -INT "$running"; wait "$running"; exit 130' INT
  trap 'kill -TERM "$running"; wait "$running"; exit 143' TERM
  wait "$running" || status=$?
  trap - INT TERM
  return "$status"
}

# A phase that later phases need: if it fails, the script ends.
needed_phase() {
  phase "$@"
  [ "$phase_status" -eq 0 ] || { summary; exit 1; }
}

summary() {
  printf '\n=== summary\n'
  printf '%s\n' "${phase_lines[@]}"
  return "$phase_failed"
}
