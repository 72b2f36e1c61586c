"""The middleware of these tests: ROBOCACHE_RMW, as `make test-ros RMW=...` sets it."""

import os

import pytest

#: Short names of what the tests run with.
IN_USE = os.environ.get("ROBOCACHE_RMW") or "fastrtps"
#: Marks a test that is about Fast DDS alone.
fast_dds_only = pytest.mark.skipif(IN_USE != "fastrtps", reason="about Fast DDS alone")
#: Marks a test of counts that only a middleware gives that numbers the messages.
counts_losses_only = pytest.mark.skipif(
    IN_USE != "fastrtps", reason="this middleware does not count lost messages"
)
