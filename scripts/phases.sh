# Sourced by the scripts that do one thing after the other: `phase NAME COMMAND...` runs and times
# the command and remembers a failure without stopping; `summary` prints all, and its exit status
# is that of the whole.

phase_lines=()
phase_failed=0

phase() {
  local name=$1 started=$SECONDS status=0
  shift
  printf '\n=== %s\n' "$name"
  "$@" || status=$?
  local verdict=ok
  if [ "$status" -ne 0 ]; then
    verdict="FAILED (exit code $status)"
    phase_failed=1
  fi
  phase_lines+=("$(printf '%6d s  %-40s %s' "$((SECONDS - started))" "$name" "$verdict")")
  return 0
}

# Ends the script here when something that the rest stands on has failed.
phases_must_be_ok() {
  [ "$phase_failed" -eq 0 ] || { summary; exit 1; }
}

summary() {
  printf '\n=== summary\n'
  printf '%s\n' "${phase_lines[@]}"
  return "$phase_failed"
}
