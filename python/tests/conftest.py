"""The demo's and the benchmark's modules are scripts: their folders go on the path."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
for folder in ("scripts", "benches", "benches/peers", "examples"):
    sys.path.insert(0, str(REPOSITORY / folder))

from domains import free_domain  # noqa: E402 (the path comes first)


@pytest.fixture(autouse=True)
def domain_id(monkeypatch):
    """A private ROS domain per test, for this process and all that it starts."""
    domain = free_domain()
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("FASTRTPS_DEFAULT_PROFILES_FILE", str(REPOSITORY / "config/fastdds.xml"))
    return domain


def run_example(name, *arguments):
    """Standard output of an example of the core; `cargo test` has built it already."""
    command = "cargo run --quiet --locked --no-default-features --example".split()
    command += [name, "--", *map(str, arguments)]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="session")
def messages():
    """The bytes of one message of every stream of the robot, by name, with their type."""
    lines = [json.loads(line) for line in run_example("sim_messages").splitlines()]
    return {line["stream"]: (line["type"], bytes.fromhex(line["cdr"])) for line in lines}
