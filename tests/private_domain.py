"""The fixture that keeps the traffic of a test to itself; every conftest.py takes it from here."""

import profiles
import pytest
from domains import free_domain


@pytest.fixture(autouse=True)
def domain_id(monkeypatch):
    """A private ROS domain per test, for this process and all that it starts."""
    domain = free_domain()
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv(profiles.VARIABLE, str(profiles.path()))
    return domain
