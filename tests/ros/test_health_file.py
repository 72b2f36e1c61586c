"""The health check of a container (docker/health.sh) says what the node does: works, lacks a required stream, hangs."""

import os
import signal

import waiting
from conftest import REPOSITORY
from fusion import start_fusion, write_config

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
    run = waiting.run(
        ["sh", REPOSITORY / "docker" / "health.sh", "3"], env={**os.environ, **environment}
    )
    return run.returncode == 0, run.stdout


def await_health(environment, is_well, words):
    found = None

    def so():
        nonlocal found
        found = check(environment)
        return found[0] == is_well and words in found[1]

    waiting.until(so, f"{(is_well, words)}", detail=lambda: f"found {found}", nap=0.1)


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


def test_a_file_that_cannot_be_written_is_logged_once(ros, start, tmp_path):
    path = tmp_path / "missing" / "health"
    environment = {"ROBOCACHE_HEALTH_FILE": str(path)}
    config = {"streams": {"joints": JOINTS}}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, env=environment)
    node = fusion.process
    node.wait_for("No such file or directory")
    # The node tries again with each report.
    for _ in range(5):
        fusion.fence()
    assert node.output.count(f"ROBOCACHE_HEALTH_FILE={path}") == 1
    node.stop()
