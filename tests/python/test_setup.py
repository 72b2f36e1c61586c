"""scripts/setup.sh with a sourced ROS that needs no further tools, so that nothing is downloaded.

cmake is a script here that notes what it should build.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest
import waiting

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = ("setup.sh", "ros_folders.sh", "requirements-ros.txt", "requirements-test.txt")


#: Notes the package of `cmake -S .../package`, and installs it when it is built. It fails for `FAILS`.
CMAKE = """#!/bin/sh
if [ "$1" = --build ]; then
  package=$(basename "$2")
  [ -e "$2/prefix" ] && mkdir -p "$DESTDIR$(cat "$2/prefix")/share/$package"
  exit
fi
basename "$2" >>"$BUILT"
[ "$(basename "$2")" != "${FAILS:-}" ] || exit 1
mkdir -p "$4"
for argument; do
  case $argument in -DCMAKE_INSTALL_PREFIX=*) echo "${argument#*=}" >"$4/prefix" ;; esac
done
"""


@pytest.fixture
def machine(tmp_path):
    """The environment of a machine with a sourced ROS, cmake, colcon and libclang."""
    index = tmp_path / "ros" / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    interfaces = ("control_msgs", "isaac_ros_tensor_list_interfaces", "tf2_msgs")
    for package in ("rcl", "rosidl_default_generators", *interfaces):
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
        "ROS_DISTRO": "jazzy",
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
    run = waiting.run(command, env=environment)
    assert run.returncode == 0, run.stderr
    assert "using the sourced ROS" not in run.stderr, "nothing is installed"
    return run.stderr


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
    run = waiting.run(["bash", "-c", command], env=environment)
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
    own = str(root / ".ros" / "interfaces.sourced.jazzy")
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


def lacks(machine, *packages):
    """Removes packages from the sourced ROS."""
    index = Path(machine["AMENT_PREFIX_PATH"], "share", "ament_index", "resource_index", "packages")
    for package in packages:
        (index / package).unlink()


def test_a_failed_build_is_a_warning_and_is_tried_again(machine, tmp_path):
    lacks(machine, "control_msgs", "tf2_msgs")
    root, built = checkout(tmp_path / "checkout"), Path(machine["BUILT"])
    # The first of the two: what follows must not hide it.
    warnings = set_up(root, machine | {"FAILS": "control_msgs"})
    assert "warning: could not build control_msgs (" in warnings
    own = root / ".ros" / "interfaces.sourced.jazzy"
    assert [folder.name for folder in (own / "share").iterdir()] == ["tf2_msgs"]
    assert prefixes(root, machine)[-1] == str(own)
    assert "warning" not in set_up(root, machine)
    assert sorted(folder.name for folder in (own / "share").iterdir()) == [
        "control_msgs",
        "tf2_msgs",
    ]
    assert built.read_text().split() == ["control_msgs", "tf2_msgs"] * 2
    set_up(root, machine)
    assert built.read_text().split() == ["control_msgs", "tf2_msgs"] * 2


def test_a_failed_build_ends_the_set_up_of_the_tests(machine, tmp_path):
    lacks(machine, "tf2_msgs")
    root = checkout(tmp_path / "checkout")
    python = root / ".ros" / "tools" / "bin" / "python3"  # an environment that installs nothing
    set_up(root, machine)
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    definition = root / "interfaces" / "tf2_msgs" / "msg" / "TFMessage.msg"
    definition.write_text(definition.read_text() + "# changed\n")
    command = ["bash", str(root / "scripts" / "setup.sh"), "--tests"]
    for fails, code in (("tf2_msgs", 1), ("tf2_msgs", 1), ("", 0)):
        environment = machine | {"FAILS": fails}
        run = waiting.run(command, env=environment)
        assert run.returncode == code, run.stderr
        assert ("error: could not build tf2_msgs" in run.stderr) == bool(fails)


def test_each_ros_has_a_prefix_of_its_own(machine, tmp_path):
    lacks(machine, "tf2_msgs")
    root, built = checkout(tmp_path / "checkout"), Path(machine["BUILT"])
    humble = machine | {"ROS_DISTRO": "humble"}
    own = [str(root / ".ros" / f"interfaces.sourced.{name}") for name in ("jazzy", "humble")]
    for _ in range(2):
        for environment, prefix in zip((machine, humble), own, strict=True):
            set_up(root, environment)
            assert prefixes(root, environment)[1:] == [prefix]
            assert Path(prefix, "share", "tf2_msgs").is_dir()
    assert built.read_text().split() == ["tf2_msgs"] * 2
    # Nothing else is left.
    left = {entry.name for entry in (root / ".ros").iterdir() if "interfaces" in entry.name}
    assert left == {Path(path).name + end for path in own for end in ("", ".stamp")}
