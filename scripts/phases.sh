# Sourced by the scripts that do one thing after the other: `phase NAME COMMAND...` runs and times
# the command and remembers a failure without stopping; `summary` prints all, and its exit status
# is that of the whole.

phase_lines=()
phase_failed=0

phase() {
  local name=$1 started=$SECONDS verdict=ok
  shift
  printf '\n=== %s\n' "$name"
  phase_status=0
  "$@" || phase_status=$?
  if [ "$phase_status" -ne 0 ]; then
    verdict="FAILED (exit code $phase_status)"
    phase_failed=1
  fi
  phase_lines+=("$(printf '%6d s  %-40s %s' "$((SECONDS - started))" "$name" "$verdict")")
  return 0
}

# A phase that the rest stands on: its failure ends the script.
needed_phase() {
  phase "$@"
  [ "$phase_status" -eq 0 ] || { summary; exit 1; }
}

summary() {
  printf '\n=== summary\n'
  printf '%s\n' "${phase_lines[@]}"
  return "$phase_failed"
}
