"""If the process stood still, the node receives again. If it did not, nothing is subscribed to again.

Fast DDS may cut a process off from its publishers after it was stopped for more than a second: they then
replace the shared-memory port through which the process receives. docs/deploy.md describes it.

Here the node believes that it stood still, because the time since the boot jumps (fault BOOT). Otherwise that time
stands, so a pause of the machine is no standstill. One test in test_middleware.py stops the process for real.
"""

from pathlib import Path

import processes
import pytest
from faults import Boot, arrive
from fusion import RELIABLE, start_fusion, streams, wrench
from middlewares import fast_dds_only
from rcl_interfaces.srv import ListParameters
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensorInfo
from robot import JOINTS, Robot, rates, start_robot
from sensor_msgs.msg import JointState
from test_frames import transform
from tf2_msgs.msg import TFMessage

ROBOT = rates(joints=500)
SHARED_MEMORY = Path("/dev/shm")
#: Pauses of the test of bursts.
PAUSES = 3
#: Two connections are at least this far apart [s] (crates/link/src/recovery.rs).
APART_S = 4
#: A queue that no burst of these tests fills.
DEEP = {"reliability": "reliable", "depth": 1000}
WRENCH = {"type": "geometry_msgs/msg/WrenchStamped", "qos": DEEP}
POSE = {"type": "geometry_msgs/msg/PoseStamped", "in_frame": "map", "max_age_ms": 1000}
LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
STOOD_STILL = "the process stood still for "


@pytest.fixture
def boot(tmp_path):
    return Boot(tmp_path / "boot")


class Sender:
    """Sends wrenches of the system's time on a topic of the node, and counts what the node has heard of them."""

    def __init__(self, fusion, stream):
        self.fusion, self.stream = fusion, stream

    @property
    def sent(self):
        return self.fusion.sent[f"/{self.stream}"]

    def count(self, key):
        return self.fusion.value(self.stream, key)

    def heard(self):
        """Number of messages that were received, or counted as ones that were not."""
        return sum(self.count(key) for key in ("received", "lost", "queue_full"))

    def send(self, count=1):
        for _ in range(count):
            now = self.fusion.ros.node.get_clock().now().nanoseconds
            self.fusion.send(f"/{self.stream}", wrench(now, 1, 2, 3))

    def send_until(self, predicate, what):
        """Sends one after the other until the predicate holds."""

        def done():
            self.send()
            return self.fusion.ros.spin_for(0.1, until=predicate)

        self.fusion.until(done, what)

    def await_heard(self):
        self.fusion.until(lambda: self.heard() == self.sent, f"all of {self.sent}")


def connected(fusion, *streams):
    """Senders of these streams, which the node hears. What they sent until then does not count."""
    senders = [Sender(fusion, stream) for stream in streams]
    for sender in senders:
        sender.send_until(lambda sender=sender: sender.count("received") > 0, "the first message")
    for sender in senders:
        arrive(fusion.ros, fusion.publishers[f"/{sender.stream}"])
    fusion.fence()
    for sender in senders:
        fusion.sent[f"/{sender.stream}"] = int(sender.heard())
    return senders


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


def cut_off(ros, fusion, start, folder):
    """Cuts the node off from a new robot, and returns that robot."""
    first = start_robot(start, folder, fusion, ["joints"], *ROBOT)
    fusion.until(lambda: fusion.value("joints", "received") > 0, "the first robot is heard")
    first.stop()
    fusion.await_value("joints", "publishers", 0)
    fusion.fence()
    received = fusion.value("joints", "received")
    if not unlink_ports(fusion.process.pid):
        pytest.skip("the middleware receives through no port in shared memory")
    robot = Robot(start, folder, *ROBOT)
    fusion.await_value("joints", "publishers", 1)
    robot.begin()
    # The test hears it, and the node does not.
    heard = []
    subscription = ros.node.create_subscription(JointState, JOINTS["topic"], heard.append, RELIABLE)
    ros.spin_until(lambda: len(heard) > 500, "the test hears the robot")
    ros.node.destroy_subscription(subscription)
    fusion.fence()
    assert fusion.value("joints", "received") == received, "the node is cut off"
    return robot


def await_old_connection_ended(fusion):
    """Waits until the newest connection has replaced each part of the one before."""
    fusion.until(lambda: fusion.process.connections == 1, "the old connection ends")


@fast_dds_only
def test_a_node_that_is_cut_off_connects_again_after_a_standstill(
    ros, start, tmp_path, node_faults, boot
):
    # With a profile of its own, whose file is gone when the node connects again.
    unset = {"FASTRTPS_DEFAULT_PROFILES_FILE": "", "FASTDDS_DEFAULT_PROFILES_FILE": ""}
    env = {**unset, **node_faults(boot=boot.file)}
    config = {"streams": {"joints": JOINTS}}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, env=env, publish=False)
    robot = cut_off(ros, fusion, start, tmp_path)
    boot.stand_still()
    received = fusion.value("joints", "received")
    fusion.until(lambda: fusion.value("joints", "received") > received + 100, "it receives again")
    # A slow machine needs more than one attempt.
    assert fusion.value("joints", "resubscribed") >= 1
    output = fusion.process.wait_for(f"{STOOD_STILL}2.0 s")
    assert output.count(STOOD_STILL) == 1
    assert "[ERROR]" not in output and "XML" not in output

    def of_the_profile():
        """Fast DDS makes two segments per connection; the one of the profile has 16 MiB."""
        return [size for size in segments_of(fusion.process.pid) if size > 16 << 20]

    # The old connection ends, with all that belonged to it.
    fusion.until(lambda: len(of_the_profile()) == 1, "one segment is left")
    await_old_connection_ended(fusion)

    # A later client finds the services and the latched messages.
    client = ros.node.create_client(ListParameters, "/fusion_node/list_parameters")
    ros.spin_until(client.service_is_ready, "the parameter services")
    answer = client.call_async(ListParameters.Request())
    ros.spin_until(answer.done, "the parameter services are heard")
    infos = []
    ros.node.create_subscription(FusedTensorInfo, "fused_tensor/info", infos.append, LATCHED)
    ros.spin_until(lambda: infos, "the info is sent to a later subscriber")
    tensors = len(fusion.ticks)
    fusion.until(lambda: len(fusion.ticks) > tensors + 50, "the tensors go on")
    assert robot.process.running


@fast_dds_only
def test_messages_of_the_silence_are_counted_as_lost(ros, start, tmp_path, node_faults, boot):
    """The node is cut off, twice (fault CUT). It receives again, and each message is received or counted."""
    cut = tmp_path / "cut"
    config = {"streams": streams(w=WRENCH)}
    env = node_faults(cut=cut, boot=boot.file)
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, env=env)
    (sender,) = connected(fusion, "w")
    for stop in (1, 2):
        sender.send(100)
        sender.await_heard()
        before = [sender.count(key) for key in ("received", "lost")]
        cut.touch()
        sender.send(50)
        fusion.fence()
        assert [sender.count(key) for key in ("received", "lost")] == before, "it is cut off"
        boot.stand_still()
        received = sender.count("received")
        sender.send_until(lambda received=received: sender.count("received") > received, "again")
        assert sender.count("resubscribed") >= stop
        await_old_connection_ended(fusion)
        # A loss at the very end leaves no gap. These come through an established connection.
        sender.send(100)
        sender.await_heard()
        assert sender.count("lost") >= before[1] + 50 and sender.count("queue_full") == 0
        ros.spin_for(APART_S)
    assert fusion.process.output.count(STOOD_STILL) == 2
    for key in ("dropped", "replaced", "reordered"):
        assert sender.count(key) == 0, key


def test_a_new_connection_needs_no_file_of_parameters(ros, start, tmp_path, node_faults, boot):
    """The file that `ros2 launch` made in /tmp may be gone, as here, and another file may be half written."""
    gone, broken = tmp_path / "gone.yaml", tmp_path / "broken.yaml"
    for file in (gone, broken):
        file.write_text("/**:\n  ros__parameters:\n    backend: cpu\n")
    files = [word for file in (gone, broken) for word in ("--params-file", str(file))]
    env = node_faults(boot=boot.file)
    config = {"streams": streams(w=WRENCH)}
    fusion = start_fusion(ros, start, tmp_path, config, *files, sim_time=False, env=env)
    (sender,) = connected(fusion, "w")
    gone.unlink()
    broken.write_text("/**:\n  ros__parameters: [")
    boot.stand_still()
    sender.send_until(lambda: sender.count("resubscribed") >= 1, "a new connection")
    sender.send_until(lambda: fusion.process.connections == 1, "the old connection ends")
    sender.send(100)
    sender.await_heard()
    assert "failed to make a new connection" not in fusion.process.output


@fast_dds_only
def test_an_auto_input_asks_for_the_same_after_a_standstill(
    ros, start, tmp_path, node_faults, boot
):
    """A new connection knows no publisher at first. The node must not ask for less then."""
    config = {"streams": streams(w={**WRENCH, "qos": {"depth": 1000}})}
    env = node_faults(boot=boot.file)
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, env=env)
    asked = "reliable, volatile"
    fusion.until(lambda: fusion.status["w"][2]["qos"] == asked, "what the publisher offers")
    (sender,) = connected(fusion, "w")
    adapted = sender.count("adapted")
    fusion.said.clear()
    for stop in (1, 2):
        boot.stand_still()
        sender.send_until(lambda stop=stop: sender.count("resubscribed") >= stop, "a connection")
        # Within this time, each part of the connection is replaced.
        sender.send_until(lambda: fusion.process.connections == 1, "the old connection ends")
        sender.send(100)
        sender.await_heard()
        ros.spin_for(APART_S)
    assert sender.count("adapted") == adapted, fusion.process.output
    assert fusion.status["w"][2]["qos"] == asked
    said = [words for part, words in fusion.said if part == "w"]
    assert not any("no publisher" in words for words in said), said
    assert not any("no message in" in words for words in said), "its own stop is no silence"
    assert fusion.process.output.count(STOOD_STILL) == 2


@pytest.mark.slow("speeds")
def test_publishers_that_pause_lose_nothing(ros, start, tmp_path, node_faults, boot):
    """Plans, commands and gripper events come in bursts; two broadcasters of fixed frames are silent for good."""
    config = {"tf": {}, "streams": streams(**{f"w{k}": WRENCH for k in range(8)}, pose=POSE)}
    env = node_faults(boot=boot.file)
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, env=env)
    fixed = [ros.node.create_publisher(TFMessage, "/tf_static", LATCHED) for _ in range(2)]
    for k, publisher in enumerate(fixed):
        publisher.publish(TFMessage(transforms=[transform(0, "map", f"sensor_{k}", [k, 0, 0])]))
    senders = connected(fusion, *(f"w{k}" for k in range(8)))

    def burst(count):
        for _ in range(count):
            for sender in senders:
                sender.send()
            ros.spin_for(0.01)

    burst(100)
    for _ in range(PAUSES):
        # Longer than each silence that the node reports.
        ros.spin_for(12)
        burst(50)
    for sender in senders:
        sender.await_heard()
        for key in ("lost", "queue_full", "dropped", "resubscribed"):
            assert sender.count(key) == 0, (sender.stream, key)
    fusion.await_value("tf_static /tf_static", "received", 2)
    assert fusion.value("tf_static /tf_static", "resubscribed") == 0
    assert STOOD_STILL not in fusion.process.output
    assert fusion.process.connections == 1
