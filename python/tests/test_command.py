"""`robocache replay` as the process of a program that may have threads."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
from robocache import _command

PARENT = """
import sys, threading, time
from robocache import _command
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
_command.replay(["bag.mcap"], sys.argv[1], "out")
"""


def is_alive(process):
    """Whether a process of this number runs."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_no_code_of_the_program_runs_between_fork_and_exec(tmp_path):
    """It may wait for a lock that another thread had at the fork. Python calls these functions only if there is such code."""
    forks = []
    os.register_at_fork(before=lambda: forks.append("before"))
    with pytest.raises(RuntimeError, match="robocache replay: ended with the exit code"):
        _command.replay([tmp_path / "no.mcap"], tmp_path / "no.yaml", tmp_path / "out")
    assert forks == []


def test_the_command_ends_with_its_parent(tmp_path):
    config = tmp_path / "config.yaml"
    # Who reads it waits for a writer that never comes.
    os.mkfifo(config)
    (tmp_path / "bag.mcap").write_bytes(b"no bag")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, config], env=environment, cwd=tmp_path)
    try:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        deadline = time.monotonic() + 30
        while not (found := children.read_text().split()):
            assert parent.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(1)
        assert is_alive(found[0])
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 30
    while is_alive(found[0]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
