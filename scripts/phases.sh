# For scripts that run commands one after the other. They source this file. `phase NAME COMMAND...`
# runs and times the command; after a failure the script goes on. `summary` prints all phases. Its
# exit status is 0 only if all phases passed.

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
