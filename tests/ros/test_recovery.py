"""If the middleware cuts the node off from its publishers, the node receives again.

Fast DDS may do so after the process was stopped for more than a second: the publishers then replace
the shared-memory port through which the process receives. docs/deploy.md describes it.
"""

import os
import re
from pathlib import Path

import pytest
from fusion import start_fusion
from rcl_interfaces.srv import ListParameters
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensorInfo
from sensor_msgs.msg import JointState
from test_overload import JOINTS, await_losses_counted, stop_for

ROBOT = ["--joints-hz", 500, "--wait-subscribers", 1]
for other in ("camera-front", "camera-wrist", "lidar", "wrench", "imu"):
    ROBOT += [f"--{other}-hz", 0]
SHARED_MEMORY = Path("/dev/shm")
LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


def start_node(ros, start, folder):
    config = {"streams": {"joints": JOINTS}}
    # With a profile of its own, whose file is gone when the node connects again.
    unset = {"FASTRTPS_DEFAULT_PROFILES_FILE": "", "FASTDDS_DEFAULT_PROFILES_FILE": ""}
    fusion = start_fusion(ros, start, folder, config, sim_time=False, env=unset)
    # Only the robots publish joints, so that the graph shows those alone.
    for publisher in fusion.publishers.values():
        ros.node.destroy_publisher(publisher)
    return fusion


def start_robot(fusion, start):
    """A robot at 500 Hz, when the node has heard it."""
    before = fusion.value("joints", "received")
    robot = start("sensor_sim", *ROBOT)
    fusion.until(lambda: fusion.value("joints", "received") > before + 200, "joints")
    return robot


def locked(pid):
    """The names of the shared memory that a process owns. Fast DDS locks a file beside each."""
    files = (os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink())
    return {found[1] for file in files if (found := re.search(r"/(fast\w+)_el", file))}


def unlink_ports(pid):
    """Removes the names of the ports through which a process receives.

    Processes that have opened a port still use it. Those that start later make one of their own
    under the name, as publishers do that replace a port.
    """
    names = {name for name in locked(pid) if "_port" in name}
    for name in names:
        (SHARED_MEMORY / name).unlink(missing_ok=True)
        (SHARED_MEMORY / f"sem.{name}_mutex").unlink(missing_ok=True)
    return names


def segments_of(pid):
    """The sizes of a process's own segments."""
    names = (name for name in locked(pid) if "_port" not in name)
    return [(SHARED_MEMORY / name).stat().st_size for name in names]


def cut_off(ros, fusion, start):
    """Cuts the node off from a new robot, and returns that robot."""
    start_robot(fusion, start).stop()
    fusion.await_value("joints", "publishers", 0)
    if not unlink_ports(fusion.process.pid):
        pytest.skip("the middleware receives through no port in shared memory")
    robot = start("sensor_sim", *ROBOT)
    fusion.await_value("joints", "publishers", 1)
    received = fusion.value("joints", "received")
    ros.spin_for(2)
    assert fusion.value("joints", "received") == received, "the node is cut off"
    return robot


def receives_again(ros, fusion, within):
    """Whether joints come within this time [s]."""
    received = fusion.value("joints", "received")
    return ros.spin_until(lambda: fusion.value("joints", "received") > received + 100, within)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_node_that_is_cut_off_connects_again(ros, start, tmp_path, stopped):
    fusion = start_node(ros, start, tmp_path)
    robot = cut_off(ros, fusion, start)
    if stopped:
        # Too short for Fast DDS to notice, so that only the removed names matter.
        stop_for(ros, fusion, 1.0)
    assert receives_again(ros, fusion, 12 if stopped else 25), fusion.process.output
    assert fusion.value("joints", "resubscribed") in (1, 2)
    output = fusion.process.wait_for("messages come again")
    assert output.count("subscribed again through a new connection") == 1
    assert "[ERROR]" not in output and "XML" not in output

    def of_the_profile():
        """Fast DDS makes two segments per connection; the one of the profile has 16 MiB."""
        return [size for size in segments_of(fusion.process.pid) if size > 16 << 20]

    # On a slow machine a second attempt may follow the first; the connection of the first then ends.
    assert ros.spin_until(lambda: len(of_the_profile()) == 2, 10), (of_the_profile(), output)

    # A later client finds services and what is latched.
    client = ros.node.create_client(ListParameters, "/fusion_node/list_parameters")
    assert ros.spin_until(client.service_is_ready, 10)
    answer = client.call_async(ListParameters.Request())
    assert ros.spin_until(answer.done, 10), "the parameter services are heard"
    infos = []
    ros.node.create_subscription(FusedTensorInfo, "fused_tensor/info", infos.append, LATCHED)
    assert ros.spin_until(lambda: infos, 10), "the info is sent to a later subscriber"
    tensors = len(fusion.ticks)
    fusion.until(lambda: len(fusion.ticks) > tensors + 50, "the tensors go on")
    assert robot.running


def test_messages_of_the_silence_are_counted_as_lost(ros, start, tmp_path):
    """Real stops seldom cut the node off. Either way it receives again, and all is counted."""
    fusion = start_node(ros, start, tmp_path)
    robot = start_robot(fusion, start)
    for _ in range(6):
        # Longer than two checks of Fast DDS.
        stop_for(ros, fusion, 3.0)
        assert receives_again(ros, fusion, 12), fusion.process.output
    await_losses_counted(fusion, robot)


def test_an_idle_publisher_costs_two_connections(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"joints": JOINTS}}, sim_time=False)

    def send(count):
        """Publishes joints at 100 Hz, and waits until they are received."""
        received = fusion.value("joints", "received")
        names = JOINTS["joints"]
        for _ in range(count):
            message = JointState(name=names, position=[0.0] * len(names))
            message.header.stamp = ros.node.get_clock().now().to_msg()
            fusion.send("/joint_states", message)
            ros.spin_for(0.01)
        fusion.await_value("joints", "received", received + count)

    send(50)
    fusion.until(lambda: fusion.value("joints", "resubscribed") == 2, "two attempts", 30)
    ros.spin_for(8)
    assert fusion.value("joints", "resubscribed") == 2
    send(50)
    assert fusion.value("joints", "lost") == fusion.value("joints", "queue_full") == 0
    output = fusion.process.output
    assert output.count("subscribed again through a new connection") == 1
    assert "messages come again" not in output, "nothing was cut off"
