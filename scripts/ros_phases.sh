# shellcheck shell=bash
# The phases of the tests with real ROS processes. scripts/test.sh and scripts/test_ros.sh source this file, after
# scripts/phases.sh, and run it on a build.

# Two workers, each in namespaces of its own. A test that was not in time gets a second try if the machine is to blame:
# tests/verdicts.py.
workers=(--tx '2*popen//python=scripts/isolated.sh python3' --second-try)

ros_phases() {
  # Most of these tests wait, each in a ROS domain of its own, so two processes share them.
  phase 'pytest: ROS processes' scripts/with_ros.sh \
    pytest -q "${workers[@]}" --dist=loadgroup --durations=10 -m 'not alone' tests/ros
  phase 'pytest: ROS processes that need both cores' scripts/isolated.sh scripts/with_ros.sh \
    pytest -q --second-try --durations=10 -m alone tests/ros
}
