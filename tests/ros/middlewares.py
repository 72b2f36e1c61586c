"""The middleware of these tests: ROBOCACHE_RMW, as `make test-ros RMW=...` sets it."""

import os

import profiles
import pytest

#: Short names of what the tests run with.
IN_USE = os.environ.get("ROBOCACHE_RMW") or "fastrtps"
#: Names the file of a profile, for the Fast DDS of this ROS: 2 or 3.
PROFILE = profiles.VARIABLES[os.environ.get("ROS_DISTRO") not in ("humble", "jazzy")]
#: Marks a test that is about Fast DDS alone.
fast_dds_only = pytest.mark.skipif(IN_USE != "fastrtps", reason="about Fast DDS alone")
#: Marks a test of what only the numbers of messages show: losses, and that a publisher started again.
numbers_only = pytest.mark.skipif(
    IN_USE != "fastrtps", reason="this middleware does not number messages"
)
