"""If the process stood still, the node receives again. If it did not, nothing is subscribed to again.

Fast DDS may cut a process off from its publishers after it was stopped for more than a second: they then
replace the shared-memory port through which the process receives. docs/deploy.md describes it.
"""

import os
from pathlib import Path

import processes
import pytest
from fusion import start_fusion, streams, wrench
from middlewares import fast_dds_only
from rcl_interfaces.srv import ListParameters
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensorInfo
from test_frames import transform
from test_overload import JOINTS, await_losses_counted, start_robot, stop_for
from tf2_msgs.msg import TFMessage

ROBOT = ["--joints-hz", 500]
for other in ("camera-front", "camera-wrist", "lidar", "wrench", "imu"):
    ROBOT += [f"--{other}-hz", 0]
SHARED_MEMORY = Path("/dev/shm")
#: Pauses of the test of bursts. A longer run: ROBOCACHE_PAUSES=5.
PAUSES = int(os.environ.get("ROBOCACHE_PAUSES", "1"))
POSE = {"type": "geometry_msgs/msg/PoseStamped", "in_frame": "map", "max_age_ms": 1000}
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


def a_robot(ros, start, fusion):
    """A robot at 500 Hz, when the node has heard it."""
    before = fusion.value("joints", "received")
    robot = start_robot(ros, start, fusion, *ROBOT)
    fusion.until(lambda: fusion.value("joints", "received") > before + 200, "joints")
    return robot


def unlink_ports(pid):
    """Removes the names of the ports through which a process receives.

    Processes that have opened a port still use it. Those that start later make one of their own
    under the name, as publishers do that replace a port.
    """
    names = {name for name in processes.locked_shared_memory(pid) if "_port" in name}
    for name in names:
        (SHARED_MEMORY / name).unlink(missing_ok=True)
        (SHARED_MEMORY / f"sem.{name}_mutex").unlink(missing_ok=True)
    return names


def segments_of(pid):
    """The sizes of a process's own segments."""
    files = [
        SHARED_MEMORY / name for name in processes.locked_shared_memory(pid) if "_port" not in name
    ]
    return [file.stat().st_size for file in files if file.exists()]


def cut_off(ros, fusion, start):
    """Cuts the node off from a new robot, and returns that robot."""
    a_robot(ros, start, fusion).stop()
    fusion.await_value("joints", "publishers", 0)
    if not unlink_ports(fusion.process.pid):
        pytest.skip("the middleware receives through no port in shared memory")
    robot = start("sensor_sim", *ROBOT)
    fusion.await_value("joints", "publishers", 1)
    received = fusion.value("joints", "received")
    ros.spin_for(2)
    assert fusion.value("joints", "received") == received, "the node is cut off"
    return robot


def receives_again(ros, fusion):
    """Whether joints come."""
    received = fusion.value("joints", "received")
    return ros.spin_until(lambda: fusion.value("joints", "received") > received + 100)


def nodes_of(ros, name="fusion_node"):
    """How many nodes of this name the graph shows."""
    return [known for known, _ in ros.node.get_node_names_and_namespaces()].count(name)


@fast_dds_only
@pytest.mark.alone
def test_a_node_that_is_cut_off_connects_again_after_a_stop(ros, start, tmp_path):
    fusion = start_node(ros, start, tmp_path)
    robot = cut_off(ros, fusion, start)
    # Too short for Fast DDS to notice, so that only the removed names matter.
    stop_for(ros, fusion, 1.0)
    assert receives_again(ros, fusion), fusion.process.output
    # A slow machine needs more than one attempt.
    assert 1 <= fusion.value("joints", "resubscribed") <= 4
    output = fusion.process.wait_for("the process stood still for ")
    assert output.count("the process stood still for ") == 1
    assert "[ERROR]" not in output and "XML" not in output

    def of_the_profile():
        """Fast DDS makes two segments per connection; the one of the profile has 16 MiB."""
        return [size for size in segments_of(fusion.process.pid) if size > 16 << 20]

    # The old connection ends, with all that belonged to it.
    assert ros.spin_until(lambda: len(of_the_profile()) == 1), (of_the_profile(), output)
    assert ros.spin_until(lambda: nodes_of(ros) == 1)

    # A later client finds the services and the latched messages.
    client = ros.node.create_client(ListParameters, "/fusion_node/list_parameters")
    assert ros.spin_until(client.service_is_ready)
    answer = client.call_async(ListParameters.Request())
    assert ros.spin_until(answer.done), "the parameter services are heard"
    infos = []
    ros.node.create_subscription(FusedTensorInfo, "fused_tensor/info", infos.append, LATCHED)
    assert ros.spin_until(lambda: infos), "the info is sent to a later subscriber"
    tensors = len(fusion.ticks)
    fusion.until(lambda: len(fusion.ticks) > tensors + 50, "the tensors go on")
    assert robot.running


@fast_dds_only
@pytest.mark.alone
def test_messages_of_the_silence_are_counted_as_lost(ros, start, tmp_path):
    """Real stops seldom cut the node off. Either way it receives again, and all is counted."""
    fusion = start_node(ros, start, tmp_path)
    robot = a_robot(ros, start, fusion)
    for _ in range(6):
        # Longer than two checks of Fast DDS.
        stop_for(ros, fusion, 3.0)
        assert receives_again(ros, fusion), fusion.process.output
    # A loss at the very end leaves no gap, so the last connection must be an established one.
    received = fusion.value("joints", "received")
    fusion.until(lambda: fusion.value("joints", "received") > received + 2000, "joints go on")
    await_losses_counted(fusion, robot)


@fast_dds_only
@pytest.mark.alone
def test_an_auto_input_asks_for_the_same_after_a_stop(ros, start, tmp_path):
    """A new connection knows no publisher at first. The node must not ask for less then."""
    joints = {**JOINTS, "qos": {}}
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"joints": joints}}, sim_time=False)
    # The client's publisher, which is silent, offers the same as the robot.
    asked = "reliable, volatile"
    fusion.until(lambda: fusion.status["joints"][2]["qos"] == asked, "what publishers offer")
    robot = start_robot(ros, start, fusion, *ROBOT)
    # If the robot is found late (src/fastdds/mod.rs), the node warns of a silence, rightly.
    fusion.until(lambda: fusion.value("joints", "received") > 0, "the robot's messages")
    ros.spin_for(2)
    fusion.said.clear()
    adapted = fusion.value("joints", "adapted")
    for stop in range(2):
        # Longer than the silence that the node would report.
        stop_for(ros, fusion, 3.5)
        # Within this time, each part of the connection is replaced.
        fusion.until(lambda: fusion.value("joints", "resubscribed") > stop, "a new connection")
        ros.spin_for(5)
    assert fusion.value("joints", "adapted") == adapted, fusion.process.output
    assert fusion.status["joints"][2]["qos"] == asked
    said = [words for part, words in fusion.said if part == "joints"]
    assert not any("no publisher" in words for words in said), said
    assert not any("no message in" in words for words in said), "its own stop is no silence"
    await_losses_counted(fusion, robot)


IDLE = {"type": "geometry_msgs/msg/WrenchStamped"}


def test_publishers_that_pause_lose_nothing(ros, start, tmp_path):
    """Plans, commands and gripper events come in bursts; two broadcasters of fixed frames are silent for good."""
    config = {"tf": {}, "streams": streams(**{f"w{k}": IDLE for k in range(8)}, pose=POSE)}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False)
    fixed = [ros.node.create_publisher(TFMessage, "/tf_static", LATCHED) for _ in range(2)]
    for k, publisher in enumerate(fixed):
        publisher.publish(TFMessage(transforms=[transform(0, "map", f"sensor_{k}", [k, 0, 0])]))

    def burst(count):
        for _ in range(count):
            for k in range(8):
                now = ros.node.get_clock().now().nanoseconds
                fusion.send(f"/w{k}", wrench(now, 1, 2, 3))
            ros.spin_for(0.01)

    burst(100)
    for _ in range(PAUSES):
        ros.spin_for(12)
        burst(50)
    for k in range(8):
        fusion.await_value(f"w{k}", "received", 100 + 50 * PAUSES)
        for key in ("lost", "queue_full", "dropped", "resubscribed"):
            assert fusion.value(f"w{k}", key) == 0, (k, key)
    assert fusion.value("tf_static /tf_static", "received") == 2
    assert fusion.value("tf_static /tf_static", "resubscribed") == 0
    assert "stood still" not in fusion.process.output
    assert nodes_of(ros) == 1
