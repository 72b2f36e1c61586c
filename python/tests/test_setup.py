"""scripts/setup.sh with a sourced ROS that needs no further tools, so that nothing is downloaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = ("setup.sh", "requirements-ros.txt", "requirements-test.txt")


@pytest.fixture
def machine(tmp_path):
    """The environment of a machine with a sourced ROS, cmake, colcon and libclang."""
    index = tmp_path / "ros" / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    for package in ("rcl", "rosidl_default_generators"):
        (index / package).touch()
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("cmake", "colcon"):
        (tools / tool).write_text("#!/bin/sh\n")
        (tools / tool).chmod(0o755)
    return os.environ | {
        "AMENT_PREFIX_PATH": str(tmp_path / "ros"),
        "LIBCLANG_PATH": str(tools),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
    }


def checkout(root):
    """A checkout with what the set-up reads."""
    (root / "scripts").mkdir(parents=True)
    for name in FILES:
        shutil.copy(REPOSITORY / "scripts" / name, root / "scripts")
    return root


def set_up(root, environment):
    """Runs the set-up of a checkout."""
    command = ["bash", str(root / "scripts" / "setup.sh")]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "using the sourced ROS" not in run.stderr, "nothing is installed"


def test_a_working_tree_that_links_to_a_set_up_folder_leaves_it_as_it_is(machine, tmp_path):
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    set_up(first, machine)
    tools = first / ".ros" / "tools"  # a new installation begins by removing it
    tools.mkdir()
    (second / ".ros").symlink_to(first / ".ros")
    set_up(second, machine)
    assert tools.is_dir()
    assert f"VIRTUAL_ENV='{tools}'" in (second / ".ros" / "env.sh").read_text()
