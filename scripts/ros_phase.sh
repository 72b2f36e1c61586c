# shellcheck shell=bash
# The phase of the tests with real ROS processes. scripts/test.sh and scripts/test_ros.sh source this file, after
# scripts/phases.sh, and run it on a build.

# Two workers, each in namespaces of its own. A test that was not in time gets a second try if the machine is to blame:
# tests/verdicts.py.
workers=(--tx '2*popen//python=scripts/isolated.sh python3' --second-try)

# Most of these tests wait for their processes, so two workers share them.
ros_phase() {
  phase 'pytest: ROS processes' scripts/with_ros.sh pytest -q "${workers[@]}" --dist=loadgroup --durations=10 tests/ros
}
