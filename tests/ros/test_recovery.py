"""If Fast DDS has cut the node off, the node makes a new connection and receives again.

Fast DDS may replace the shared-memory port of a process whose threads did not run for a second. docs/deploy.md describes
it. Here the test removes the names of the node's ports: that is what the node sees then. What a connection must keep is
shown by crates/simulation.
"""

import os
import threading
from contextlib import contextmanager, suppress

import pytest
from faults import lose_ports
from fusion import start_fusion
from middlewares import fast_dds_only
from processes import SHARED_MEMORY, locked_shared_memory
from rcl_interfaces.srv import ListParameters
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensorInfo
from robot import JOINTS, Robot, rates, start_robot

ROBOT = rates(joints=500)
LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
CUT_OFF = "the middleware has cut this process off"


def segments_of_the_profile(pid):
    """How many segments of its own a process has from its profile: 16 MiB each. Fast DDS makes others beside them."""
    count = 0
    for name in locked_shared_memory(pid):
        # The process may remove it meanwhile.
        with suppress(FileNotFoundError):
            large = (SHARED_MEMORY / name).stat().st_size > 16 << 20
            count += large and "_port" not in name
    return count


@fast_dds_only
def test_a_node_that_is_cut_off_connects_again(ros, start, tmp_path):
    """It has a profile of its own, and files of parameters. These are gone when it connects again.

    The file that `ros2 launch` made in /tmp may be gone, as here, and another file may be half written.
    """
    gone, broken = tmp_path / "gone.yaml", tmp_path / "broken.yaml"
    for file in (gone, broken):
        file.write_text("/**:\n  ros__parameters:\n    backend: cpu\n")
    files = [word for file in (gone, broken) for word in ("--params-file", str(file))]
    env = {"FASTRTPS_DEFAULT_PROFILES_FILE": "", "FASTDDS_DEFAULT_PROFILES_FILE": ""}
    config = {"streams": {"joints": JOINTS}}
    given = dict(sim_time=False, env=env, publish=False)
    fusion = start_fusion(ros, start, tmp_path, config, *files, **given)
    first = start_robot(start, tmp_path, fusion, ["joints"], *ROBOT)
    fusion.until(lambda: fusion.value("joints", "received") > 0, "the first robot is heard")
    first.stop()
    fusion.await_value("joints", "publishers", 0)
    gone.unlink()
    broken.write_text("/**:\n  ros__parameters: [")
    assert CUT_OFF not in fusion.process.output
    # A robot that begins from now on does not find the port of the node.
    assert len(lose_ports(fusion.process.pid)) >= 2
    robot = Robot(start, tmp_path, *ROBOT)
    fusion.await_value("joints", "publishers", 1)
    fusion.process.wait_for(CUT_OFF)
    robot.begin()
    received = fusion.value("joints", "received")
    fusion.until(lambda: fusion.value("joints", "received") > received + 100, "it receives again")
    assert fusion.value("joints", "resubscribed") == 1
    # The old connection ends, with all that belonged to it.
    pid = fusion.process.pid
    fusion.until(lambda: segments_of_the_profile(pid) == 1, "one segment is left")
    fusion.until(lambda: fusion.process.connections == 1, "the old connection ends")

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
    # From now on it hears the robot as before, so nothing is cut off.
    output = fusion.process.output
    assert output.count(CUT_OFF) == 1 and "stood still" not in output
    assert "[ERROR]" not in output and "XML" not in output
    assert robot.process.running


@contextmanager
def full_shared_memory(left):
    """Keeps shared memory full but for `left` bytes. Processes of other tests give some back meanwhile. It is taken at once:
    otherwise there may be room for a segment."""
    fill, is_over = SHARED_MEMORY / "fill", threading.Event()

    def take(file):
        found = os.statvfs(SHARED_MEMORY)
        more = found.f_bavail * found.f_frsize - left
        # Another process may be faster.
        with suppress(OSError):
            if more > 0:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, more)

    def keep_full(file):
        while not is_over.wait(0.005):
            take(file)

    with fill.open("wb") as file:
        take(file)
        thread = threading.Thread(target=keep_full, args=[file])
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            fill.unlink()


@fast_dds_only
@pytest.mark.skipif("ROBOCACHE_ISOLATED" not in os.environ, reason="it fills /dev/shm")
def test_a_new_connection_without_room_for_its_shared_memory_goes_by_udp(ros, start, tmp_path):
    env = {"FASTRTPS_DEFAULT_PROFILES_FILE": "", "FASTDDS_DEFAULT_PROFILES_FILE": ""}
    config = {"streams": {"joints": JOINTS}}
    given = dict(sim_time=False, env=env, publish=False)
    fusion = start_fusion(ros, start, tmp_path, config, **given)
    robot = start_robot(start, tmp_path, fusion, ["joints"], *ROBOT)
    fusion.until(lambda: fusion.value("joints", "received") > 0, "the robot is heard")
    with full_shared_memory(8 << 20):
        lose_ports(fusion.process.pid)
        fusion.process.wait_for("the new connection to the middleware has no shared memory")
        fusion.until(lambda: fusion.value("joints", "resubscribed") == 1, "a new connection")
        pid = fusion.process.pid
        fusion.until(lambda: segments_of_the_profile(pid) == 0, "the old connection ends")
        received = fusion.value("joints", "received")
        fusion.until(lambda: fusion.value("joints", "received") > received + 500, "it receives")
    assert robot.process.running
