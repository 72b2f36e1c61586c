"""The fixture that keeps the traffic of a test to itself; every conftest.py takes it from here."""

from pathlib import Path

import pytest
from domains import free_domain

PROFILE = Path(__file__).resolve().parents[1] / "config" / "fastdds.xml"


@pytest.fixture(autouse=True)
def domain_id(monkeypatch):
    """A private ROS domain per test, for this process and all that it starts."""
    domain = free_domain()
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("FASTRTPS_DEFAULT_PROFILES_FILE", str(PROFILE))
    return domain
