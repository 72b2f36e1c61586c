"""The health check of a container (docker/health.sh) says what the node does: works, lacks a required stream, hangs."""

import os
import signal
import subprocess
import time

from conftest import PATIENCE, REPOSITORY
from fusion import write_config

JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "topic": "/joint_states",
    "joints": ["joint_0"],
    "max_age_ms": 500,
    "required": True,
}
ROBOT = [f"--{sensor}-hz" for sensor in ("camera-front", "camera-wrist", "lidar", "wrench", "imu")]
ROBOT = [word for option in ROBOT for word in (option, "0")]


def check(environment):
    """(whether the node is well, what the check prints)."""
    run = subprocess.run(
        ["sh", REPOSITORY / "docker" / "health.sh", "3"],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return run.returncode == 0, run.stdout


def await_health(environment, is_well, words):
    deadline = time.monotonic() + PATIENCE
    while (found := check(environment))[0] != is_well or words not in found[1]:
        assert time.monotonic() < deadline, f"expected {(is_well, words)}, found {found}"
        time.sleep(0.1)


def test_the_check_follows_the_node(start, tmp_path):
    environment = {"ROBOCACHE_HEALTH_FILE": str(tmp_path / "health")}
    assert check(environment) == (False, f"no report yet: {tmp_path / 'health'}\n")
    config = write_config(tmp_path, {"rate_hz": 100, "streams": {"joints": JOINTS}})
    parameter = f"config_file:={config}"
    node = start("fusion_node", "--ros-args", "-p", parameter, env=environment)
    await_health(environment, False, "held back by 'joints'")
    robot = start("sensor_sim", *ROBOT)
    await_health(environment, True, "")
    os.kill(node.pid, signal.SIGSTOP)
    try:
        await_health(environment, False, "the node has not reported for")
    finally:
        os.kill(node.pid, signal.SIGCONT)
    await_health(environment, True, "")
    robot.stop()
    await_health(environment, False, "ERROR tick:")
    node.stop()


def test_a_file_that_cannot_be_written_is_logged_once(start, tmp_path):
    path = tmp_path / "missing" / "health"
    config = write_config(tmp_path, {"rate_hz": 100, "streams": {"joints": JOINTS}})
    given = ["-p", f"config_file:={config}", "-p", "diagnostics_period_s:=0.1"]
    environment = {"ROBOCACHE_HEALTH_FILE": str(path)}
    node = start("fusion_node", "--ros-args", *given, env=environment)
    node.wait_for("No such file or directory")
    time.sleep(1.0)
    assert node.output.count(f"ROBOCACHE_HEALTH_FILE={path}") == 1
    node.stop()
