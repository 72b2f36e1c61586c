"""Puts the folders of the demo's and the benchmark's scripts on the path."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
for folder in ("scripts", "demo", "benches", "benches/peers", "examples", "tests", "tests/soak"):
    sys.path.insert(0, str(REPOSITORY / folder))

# The folder `torch` beside this file holds tests. If there is no torch, it must not pass for it.
_torch = importlib.util.find_spec("torch")
if _torch is not None and _torch.origin is None:
    sys.modules["torch"] = None

import private_domain  # noqa: E402 (the path comes first)
import waiting  # noqa: E402

domain_id = private_domain.domain_id


def run_example(name, *arguments):
    """Runs an example of the simulated robot, which the build of the tests has. Returns its standard output."""
    program = Path(os.environ.get("ROBOCACHE_CARGO", "")) / "examples" / name
    command = [program]
    if not program.exists():
        # With `-p`, crates would have other features, and cargo would compile the core once more.
        command = [*"cargo run --quiet --locked --example".split(), name, "--"]
    run = waiting.run([*command, *map(str, arguments)], timeout=600, cwd=REPOSITORY)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="session")
def messages():
    """Stream name to (type, bytes) of one message, for every stream of the robot."""
    lines = [json.loads(line) for line in run_example("sim_messages").splitlines()]
    return {line["stream"]: (line["type"], bytes.fromhex(line["cdr"])) for line in lines}
