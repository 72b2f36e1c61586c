"""Message packages that a configuration needs and that are not installed."""

import os
from pathlib import Path

import pytest
from fusion import WRENCH, write_config

ODOMETRY = WRENCH | {"type": "nav_msgs/msg/Odometry", "topic": "odom", "fields": ["position"]}


@pytest.fixture
def without(tmp_path, install):
    """`without(package)`: an environment in which the package's libraries do not exist."""

    def environment(package):
        prefix = tmp_path / "prefix"
        (prefix / "lib").mkdir(parents=True)
        old = os.environ["AMENT_PREFIX_PATH"].split(":")
        libraries = [Path(folder) / "lib" for folder in old]
        libraries += [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
        for library in (file for folder in libraries for file in folder.glob("*.so*")):
            link = prefix / "lib" / library.name
            if not library.name.startswith(f"lib{package}__") and not link.exists():
                link.symlink_to(library)
        return {"AMENT_PREFIX_PATH": str(prefix), "LD_LIBRARY_PATH": str(prefix / "lib")}

    return environment


def test_the_node_runs_without_packages_that_it_does_not_use(start, tmp_path, without):
    config = write_config(tmp_path, {"rate_hz": 100, "streams": {"wrench": WRENCH}})
    given = ["-p", f"config_file:={config}", "-p", "backend:=cpu"]
    node = start("fusion_node", "--ros-args", *given, env=without("sensor_msgs"))
    node.wait_for("on the cpu backend")
    assert node.stop() == 0


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        # The stream asks for a frame, so the node reads /tf.
        ("tf2_msgs", '"tf2_msgs/msg/TFMessage": the package tf2_msgs is not in AMENT_PREFIX_PATH'),
        ("nav_msgs", '"nav_msgs/msg/Odometry": the package nav_msgs is not in AMENT_PREFIX_PATH'),
        (
            "geometry_msgs",  # a part of Odometry
            "the package nav_msgs is installed and needs it, but the package geometry_msgs is not",
        ),
    ],
)
def test_the_missing_package_is_named_at_the_start(start, tmp_path, without, package, expected):
    odometry = ODOMETRY | {"in_frame": "map"}
    config = write_config(tmp_path, {"rate_hz": 100, "streams": {"odom": odometry}})
    given = ["-p", f"config_file:={config}", "-p", "backend:=cpu"]
    node = start("fusion_node", "--ros-args", *given, expected_code=1, env=without(package))
    assert node.wait() == 1
    assert expected in node.output
    assert f"install ros-$ROS_DISTRO-{package.replace('_', '-')}" in node.output
