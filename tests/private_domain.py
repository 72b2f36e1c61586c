"""The fixture that keeps the traffic of a test to itself; every conftest.py takes it from here."""

from pathlib import Path

import profiles
import pytest
from domains import free_domain


def shared_memory_ports(domain):
    """Fast DDS's files of the unicast ports of a domain: 7400 + 250 d + 10 and on, two for each participant (RTPS)."""
    first = 7400 + 250 * domain + 10
    # The names of Fast DDS 2, then those of Fast DDS 3.
    kinds = ("fastrtps", "fastdds")
    return [Path(f"/dev/shm/{kind}_port{k}") for kind in kinds for k in range(first, first + 100)]


@pytest.fixture(autouse=True)
def domain_id(monkeypatch):
    """A private ROS domain per test, for this process and all that it starts."""
    domain = free_domain()
    # No process uses it, so these are of processes that were killed. A new one would take them.
    for port in shared_memory_ports(domain):
        port.unlink(missing_ok=True)
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    for name in profiles.VARIABLES:
        monkeypatch.setenv(name, str(profiles.path()))
    return domain
