"""The demo's and the benchmark's modules are scripts: their folders go on the path."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
for folder in ("scripts", "benches", "benches/peers", "examples", "tests"):
    sys.path.insert(0, str(REPOSITORY / folder))

import private_domain  # noqa: E402 (the path comes first)

domain_id = private_domain.domain_id


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
