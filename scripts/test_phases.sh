# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of scripts/ros_folders.sh and scripts/phases.sh, which the caller has sourced
# Phases of tests on a build. Scripts source this file after scripts/ros_folders.sh and scripts/phases.sh.

# Two workers for each phase, each in namespaces of its own. A test that was not in time gets a second try if the machine is to blame:
# tests/verdicts.py.
workers=(--tx '2*popen//python=scripts/isolated.sh python3' --second-try)

# Phases of a run share the bound of flaky tests: tests/flaky.py. At its end nothing of the run goes on.
share_verdicts() {
  ROBOCACHE_VERDICTS=$(mktemp -d)
  export ROBOCACHE_VERDICTS
  beside=''
  trap '[ -z "$beside" ] || kill -TERM "$beside"; rm -rf "$ROBOCACHE_VERDICTS"' EXIT
  scripts/isolated.sh --check
}

# What the tests run on. It has CUDA, whose code is tested without a GPU. Tests of the CUDA backend need one: benches/gpu.sh
# runs them.
build_phases() {
  share_verdicts
  phase 'set-up of nvcc' scripts/cuda.sh
  needed_phase 'set-up' scripts/setup.sh --tests
  limit_s=3600 needed_phase 'build' scripts/build.sh
}

# Tests of all crates and of the node, which the build has compiled. They have no network.
cargo_phase() {
  phase 'cargo test' scripts/isolated.sh scripts/with_ros.sh python3 scripts/cargo_test.py \
    sh "$build_dir/robocache_ros/cargo.sh" test
}

# Most of these tests wait for their processes. A file's tests may share what they set up, in a group of their own.
ros_phase() {
  phase 'pytest: ROS processes' scripts/with_ros.sh pytest -q "${workers[@]}" --dist=loadgroup --durations=10 tests/ros
}

# A file's tests share what they set up, so they stay together.
python_phase() {
  phase 'pytest: the Python package' scripts/with_ros.sh pytest -q "${workers[@]}" --dist=loadfile --durations=10 tests/python
}

# Both at once: the tests with ROS wait, and those of the Python package compute. Their output comes one after the other.
python_and_ros_phase() {
  local said=$ROBOCACHE_VERDICTS/python.said line=$ROBOCACHE_VERDICTS/python.line
  (
    python_phase
    echo "${phase_lines[-1]}" >"$line"
    exit "$phase_status"
  ) >"$said" 2>&1 &
  beside=$!
  ros_phase
  wait "$beside" || phase_failed=1
  beside=''
  cat "$said"
  phase_lines+=("$(cat "$line")")
}
