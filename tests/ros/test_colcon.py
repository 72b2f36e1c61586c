"""One `colcon build` installs all that `ros2 run` and `ros2 launch` need.

The wheels have neither command, so the tests check what the commands read. The ament index names
the package's prefix, and executables are in lib/<package>. Of the release (`make test-release`), the
build is a new one in a user's workspace. Otherwise it is that of the tests.
"""

import os
from pathlib import Path

import pytest
import waiting
from fusion import subscribe_tensors

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = "robocache_ros"
IS_RELEASE = os.environ["ROBOCACHE_PROFILE"] == "release"
#: A build compiles for minutes, and the first test waits for it [s].
BUILD_S = 1800
#: They share the workspace, so one process runs them all.
pytestmark = [pytest.mark.xdist_group("colcon"), pytest.mark.timeout(BUILD_S + waiting.PATIENCE)]


def underlay():
    """The environment without this repository's own install, which the build must not use."""
    env = dict(os.environ)
    for name in ("AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PATH"):
        paths = env.get(name, "").split(":")
        install = str(REPOSITORY / "install")
        env[name] = ":".join(p for p in paths if p and not p.startswith(install))
    env.pop("COLCON_PREFIX_PATH", None)
    # r2r takes minutes to compile and does not depend on the workspace. So cargo's folder of
    # `make build` is used again; cargo itself checks that its files are up to date.
    env["CARGO_TARGET_DIR"] = str(Path(os.environ["ROBOCACHE_CARGO"]).parent)
    return env


def build(root, *arguments):
    """The install folder of a new workspace with a link to the repository in src."""
    (root / "src").mkdir()
    (root / "src" / "robocache").symlink_to(REPOSITORY)
    command = ["colcon", "build", "--packages-select", PACKAGE, *arguments]
    built = waiting.run(command, BUILD_S, cwd=root, env=underlay())
    assert built.returncode == 0, built.stdout + built.stderr
    return root / "install"


@pytest.fixture(scope="module")
def installs(tmp_path_factory):
    """The folder with the install of each package and its setup.bash."""
    if not IS_RELEASE:
        return Path(os.environ["ROBOCACHE_INSTALL"])
    return build(tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def prefix(installs):
    return installs / PACKAGE


def sourced(installs, command, **kwargs):
    """Runs a command in a shell that has sourced the install folder."""
    script = f". {installs}/setup.bash && {command}"
    return waiting.run(["bash", "-c", script], env=underlay(), **kwargs)


@pytest.mark.skipif(not IS_RELEASE, reason="builds the package once more: make test-release")
def test_the_messages_alone_are_built_without_cargo(tmp_path):
    installs = build(tmp_path, "--cmake-args", "-DROBOCACHE_MESSAGES_ONLY=ON")
    assert not (installs / PACKAGE / "lib" / PACKAGE).exists()
    script = "import importlib.util as u, robocache_ros.msg as m;"
    script += "print(m.FusedTensor(tick=7).tick, u.find_spec('robocache'))"
    found = sourced(installs, f'python3 -c "{script}"')
    assert (found.returncode, found.stdout) == (0, "7 None\n"), found.stderr


def test_ament_index_and_executables_are_where_ros2_run_looks(installs, prefix):
    assert (prefix / "share/ament_index/resource_index/packages" / PACKAGE).exists()
    found = sourced(installs, "printenv AMENT_PREFIX_PATH")
    assert str(prefix) in found.stdout.strip().split(":")
    for name in ("fusion_node", "sensor_sim", "robocache"):
        executable = prefix / "lib" / PACKAGE / name
        assert os.access(executable, os.X_OK), executable
        linked = sourced(installs, f"ldd {executable}")
        assert linked.returncode == 0 and "not found" not in linked.stdout, linked.stdout


def test_launch_files_and_configurations_are_installed(prefix):
    share = prefix / "share" / PACKAGE
    for folder, pattern in (("launch", "*.launch.py"), ("config", "*.yaml"), ("config", "*.xml")):
        wanted = {path.name for path in (REPOSITORY / folder).glob(pattern)}
        assert wanted and wanted <= {path.name for path in (share / folder).iterdir()}
    for message in (REPOSITORY / "msg").glob("*.msg"):
        assert (share / "msg" / message.name).read_text() == message.read_text()


def test_messages_exist_for_c_and_cpp(prefix):
    include = prefix / "include" / PACKAGE / PACKAGE / "msg"
    assert (include / "fused_tensor.h").exists() and (include / "fused_tensor.hpp").exists()
    for part in ("generator_c", "typesupport_c", "typesupport_cpp", "typesupport_fastrtps_cpp"):
        assert (prefix / "lib" / f"lib{PACKAGE}__rosidl_{part}.so").exists()


def test_python_finds_messages_and_package(installs, prefix):
    script = (
        "import robocache, robocache_ros.msg as m; from rclpy.serialization import *;"
        "bytes = serialize_message(m.FusedTensor(tick=7, segments=[m.TensorSegment(name='a')]));"
        "assert deserialize_message(bytes, m.FusedTensor).segments[0].name == 'a';"
        "print(robocache.__file__, m.__file__)"
    )
    found = sourced(installs, f'python3 -c "{script}"')
    assert found.returncode == 0, found.stderr
    assert all(Path(path).is_relative_to(prefix) for path in found.stdout.split()), found.stdout


def test_the_command_line_is_on_the_path(installs):
    checked = sourced(
        installs,
        f"robocache check $(dirname $(which robocache))/../share/{PACKAGE}/config/robocache.yaml",
    )
    assert checked.returncode == 0, checked.stderr


def test_the_installed_node_runs_and_ends_cleanly(installs, prefix, start, ros):
    config = prefix / "share" / PACKAGE / "config" / "robocache.yaml"
    node = start(
        "/bin/bash",
        "-c",
        f". {installs}/setup.bash && exec {prefix}/lib/{PACKAGE}/fusion_node "
        f"--ros-args -p config_file:={config}",
        env=underlay() | {"ROS_DOMAIN_ID": os.environ["ROS_DOMAIN_ID"]},
    )
    tensors = subscribe_tensors(ros, "/fused_tensor")
    ros.spin_until(lambda: len(tensors) > 10, "tensors", detail=lambda: node.output)
    assert node.stop() == 0
