"""scripts/setup.sh with a sourced ROS that needs no further tools, so that nothing is downloaded.

cmake is a script here that notes what it should build.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = ("setup.sh", "requirements-ros.txt", "requirements-test.txt")


#: Notes the package of `cmake -S .../package`, and makes its prefix.
CMAKE = """#!/bin/sh
[ "$1" = -S ] || exit 0
basename "$2" >>"$BUILT"
for argument; do
  case $argument in -DCMAKE_INSTALL_PREFIX=*) mkdir -p "${argument#*=}/lib" ;; esac
done
"""


@pytest.fixture
def machine(tmp_path):
    """The environment of a machine with a sourced ROS, cmake, colcon and libclang."""
    index = tmp_path / "ros" / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    for package in ("rcl", "rosidl_default_generators", "control_msgs", "tf2_msgs"):
        (index / package).touch()
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool, text in (("cmake", CMAKE), ("colcon", "#!/bin/sh\n")):
        (tools / tool).write_text(text)
        (tools / tool).chmod(0o755)
    return os.environ | {
        "AMENT_PREFIX_PATH": str(tmp_path / "ros"),
        "LIBCLANG_PATH": str(tools),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "BUILT": str(tmp_path / "built"),
    }


def checkout(root):
    """A checkout with what the set-up reads."""
    (root / "scripts").mkdir(parents=True)
    for name in FILES:
        shutil.copy(REPOSITORY / "scripts" / name, root / "scripts")
    shutil.copytree(REPOSITORY / "interfaces", root / "interfaces")
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


def prefixes(root, environment):
    """AMENT_PREFIX_PATH after the environment of a checkout was sourced twice."""
    env_sh = root / ".ros" / "env.sh"
    command = f". '{env_sh}' && . '{env_sh}' && printf %s \"$AMENT_PREFIX_PATH\""
    run = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split(":")


def test_interface_packages_that_the_ros_has_are_not_built(machine, tmp_path):
    root = checkout(tmp_path / "checkout")
    set_up(root, machine)
    assert not Path(machine["BUILT"]).exists()
    assert prefixes(root, machine) == [machine["AMENT_PREFIX_PATH"]]


def test_a_missing_interface_package_is_built_once_and_is_behind_all_others(machine, tmp_path):
    ros = Path(machine["AMENT_PREFIX_PATH"])
    (ros / "share" / "ament_index" / "resource_index" / "packages" / "tf2_msgs").unlink()
    root, built = checkout(tmp_path / "a checkout"), Path(machine["BUILT"])
    set_up(root, machine)
    assert built.read_text().split() == ["tf2_msgs"]
    own = str(root / ".ros" / "interfaces")
    assert prefixes(root, machine) == [str(ros), own]
    # Again, and in a shell that has sourced the first set-up.
    set_up(root, machine)
    set_up(root, machine | {"AMENT_PREFIX_PATH": f"{ros}:{own}"})
    assert built.read_text().split() == ["tf2_msgs"]
    # Another definition is another package.
    definition = root / "interfaces" / "tf2_msgs" / "msg" / "TFMessage.msg"
    definition.write_text(definition.read_text() + "# changed\n")
    set_up(root, machine)
    assert built.read_text().split() == ["tf2_msgs"] * 2
    # The ROS has it now.
    (ros / "share" / "ament_index" / "resource_index" / "packages" / "tf2_msgs").touch()
    set_up(root, machine)
    assert prefixes(root, machine) == [str(ros)]
