"""Which middleware answers, and what the node says of it. `make test-ros RMW=cyclonedds` chooses another one."""

import os
import signal
import socket
import time
from array import array

import middlewares
import pytest
import yaml
from conftest import REPOSITORY
from faults import Boot, Hold, stop_for
from fusion import BEST_EFFORT, MS, T0, stamped, start_fusion, time_message, type_of, write_config
from rclpy.utilities import get_rmw_implementation_identifier
from robot import JOINTS, rates, start_robot
from sensor_msgs.msg import Image, JointState, PointCloud2, PointField
from waiting import PATIENCE

#: The vendor of each in the header of its packets: eProsima, and Eclipse (RTPS specification, 9.4.5.1).
VENDORS = {"fastrtps": b"\x01\x0f", "cyclonedds": b"\x01\x10"}
#: Where nobody listens but the test: a participant that is not there. Others look for it with discovery packets.
ABSENT = 20
NOT_COUNTED = "not counted"
cyclonedds_only = pytest.mark.skipif(
    middlewares.IN_USE != "cyclonedds", reason="about CycloneDDS alone"
)


def large_streams():
    """The cameras and the lidar of the shipped configuration."""
    streams = yaml.safe_load((REPOSITORY / "config" / "robocache.yaml").read_text())["streams"]
    return {name: streams[name] for name in ("camera_front", "camera_wrist", "lidar")}


def vendor_of_first_packet(domain_id, timeout=PATIENCE):
    """The vendor in the first packet of discovery that comes in this domain; the test's own process sends none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 7400 + 250 * domain_id + 10 + 2 * ABSENT))
        listener.settimeout(timeout)
        packet = listener.recv(65536)
    assert packet[:4] == b"RTPS"
    return packet[6:8]


@pytest.mark.parametrize("program", ["fusion_node", "sensor_sim"])
def test_the_packets_on_the_wire_are_of_the_middleware_that_was_asked_for(
    start, domain_id, program
):
    arguments = ["--ros-args", "-p", "managed:=true"] if program == "fusion_node" else []
    process = start(program, *arguments)
    assert vendor_of_first_packet(domain_id) == VENDORS[middlewares.IN_USE], process.output


def test_the_node_and_a_client_name_the_middleware_that_was_asked_for(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"joints": JOINTS}}, sim_time=False)
    named = fusion.status["tick"][2]["middleware"]
    assert named == f"rmw_{middlewares.IN_USE}_cpp" == get_rmw_implementation_identifier()
    counted = [fusion.status["joints"][2][key] for key in ("lost", "queue_full")]
    assert counted == (["0", "0"] if middlewares.IN_USE == "fastrtps" else [NOT_COUNTED] * 2)
    said = f"{named} does not count lost messages" in fusion.process.output
    assert said == (middlewares.IN_USE != "fastrtps")


def test_a_middleware_that_tells_of_no_message_is_an_error_at_the_start(
    ros, start, node_faults, tmp_path
):
    (tmp_path / "fault").touch()
    config = {"rate_hz": 50, "streams": {"joints": JOINTS}}
    given = ["--ros-args", "-p", f"config_file:={write_config(tmp_path, config)}"]
    env = node_faults(tell=tmp_path / "fault")
    node = start("fusion_node", *given, expected_code=1, env=env)
    assert node.wait() == 1
    assert node.output.count("be told of new messages of /joint_states") == 1, node.output


@cyclonedds_only
def test_losses_that_nobody_counts_are_not_reported_as_none(ros, start, tmp_path, node_faults):
    """A queue that overflows: CycloneDDS tells the node of no message that it dropped."""
    hold = Hold(tmp_path / "hold")
    joints = {**JOINTS, "qos": {"reliability": "reliable", "depth": 16}}
    config = {"streams": {"joints": joints}}
    fusion = start_fusion(ros, start, tmp_path, config, env=node_faults(hold=hold.file)).warm_up()
    fusion.advance(T0)
    sent = 0

    def send(count=1):
        nonlocal sent
        for _ in range(count):
            message = stamped(JointState, T0 + (sent - 500) * MS, name=JOINTS["joints"])
            message.position = [0.0] * 14
            fusion.send("/joint_states", message)
            sent += 1

    def send_in_parts(lost):
        for _ in range(4):
            send(16)
            fusion.await_value("joints", "received", sent - lost)

    send_in_parts(lost=0)
    queued = hold.begin(fusion, "joints", "/joint_states", send)
    send(16 - queued + 100)
    hold.end(fusion, "/joint_states")
    send_in_parts(lost=100)
    values = fusion.status["joints"][2]
    assert (values["lost"], values["queue_full"]) == (NOT_COUNTED, NOT_COUNTED)
    fusion.await_value("joints", "missing", 100)  # the guess
    fusion.process.wait_for("probably missing by their stamps' period")


def test_after_a_standstill_the_node_blames_no_sensor(ros, start, tmp_path, node_faults):
    """A standstill alone is no reason for a new connection. Nothing is amiss with a sensor."""
    boot = Boot(tmp_path / "boot")
    fusion, robot = start_with_large_streams(ros, start, tmp_path, env=node_faults(boot=boot.file))
    names = list(fusion.config["streams"])
    asked = {name: fusion.status[name][2]["qos"] for name in names}
    fusion.said.clear()
    boot.stand_still(3)
    fusion.process.wait_for("the process stood still for 3.0 s")
    await_more(fusion, 30)
    fusion.fence()
    output = fusion.process.output.partition("the process stood still for ")[2]
    said = [words for part, words in fusion.said if part in names]
    for blame in ("no message in", "no publisher", "not arrive", "publishes nothing", "instead of"):
        assert not any(blame in words for words in said), (blame, said)
        assert blame not in output, output
    assert ": subscribed again with" not in output, output
    assert {name: fusion.status[name][2]["qos"] for name in names} == asked
    assert all(fusion.value(name, "resubscribed") == 0 for name in names)
    check_all_counted(fusion, robot)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(3, id="a pause"),
        pytest.param(12, id="longer than the lease", marks=pytest.mark.slow("kills")),
    ],
)
def test_after_a_stop_of_its_own_the_node_hears_all_again(ros, start, tmp_path, seconds):
    """The process is stopped for real. It may take a while until the others and it find each other again.

    If Fast DDS has cut it off, it makes a new connection. With CycloneDDS it needs none, also if the others gave it up.
    """
    fusion, robot = start_with_large_streams(ros, start, tmp_path)
    names = list(fusion.config["streams"])
    asked = {name: fusion.status[name][2]["qos"] for name in names}
    stop_for(ros, fusion.process.pid, seconds)
    await_more(fusion, 30)
    fusion.process.wait_for("the process stood still for ")
    for name in names:
        fusion.until(lambda name=name: fusion.status[name][2]["qos"] == asked[name], "the same QoS")
    check_all_counted(fusion, robot)


def start_with_large_streams(ros, start, folder, **kwargs):
    """A node of joints, images and clouds, and their robot. Each stream is heard."""
    # A queue holds the messages of some seconds. Without an expected rate, a busy machine makes no stream lossy.
    streams = {"joints": JOINTS, **large_streams()}
    streams = {name: {**spec, "qos": {"depth": 1000}} for name, spec in streams.items()}
    for spec in streams.values():
        spec.pop("expected_rate_hz", None)
    config = {"streams": streams}
    fusion = start_fusion(ros, start, folder, config, sim_time=False, publish=False, **kwargs)
    options = rates(joints=100, camera_front=20, camera_wrist=20, lidar=10)
    options += ["--image-width", 160, "--image-height", 120, "--lidar-columns", 128]
    robot = start_robot(start, folder, fusion, list(config["streams"]), *options)
    fusion.until(lambda: fusion.value("joints", "received") > 0, "joints")
    await_more(fusion, 20)
    return fusion, robot


def await_more(fusion, count):
    """Waits until each stream has received so many more messages."""
    names = list(fusion.config["streams"])
    before = {name: fusion.value(name, "received") for name in names}
    fusion.until(
        lambda: all(fusion.value(name, "received") > before[name] + count for name in names),
        f"{count} more messages of each stream",
    )


def check_all_counted(fusion, robot):
    """Ends the robot. Of its messages, each was received, or counted as one that was not."""
    sent = robot.stop()
    if middlewares.IN_USE != "fastrtps":
        return

    def heard(name):
        return sum(fusion.value(name, key) for key in ("received", "lost", "queue_full"))

    for name in fusion.config["streams"]:
        fusion.until(lambda name=name: heard(name) == sent[name], f"all of {sent[name]} of {name}")


@cyclonedds_only
def test_a_publisher_that_was_killed_leaves_the_request_as_it_was(ros, start, tmp_path):
    """The graph shows it until its lease of 10 s is over. Then no publisher is there, so nobody has changed."""
    config = {"streams": {"joints": {**JOINTS, "qos": {}}}}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, publish=False)
    robot = start("sensor_sim", *rates(joints=1000), expected_code=-signal.SIGKILL)
    asked = "reliable, volatile"
    fusion.until(lambda: fusion.status["joints"][2]["qos"] == asked, "what the robot offers")
    adapted = fusion.value("joints", "adapted")
    os.kill(robot.pid, signal.SIGKILL)
    killed = time.monotonic()
    fusion.await_value("joints", "publishers", 0)
    assert time.monotonic() - killed > 5, "the lease"
    fusion.fence()
    assert (
        fusion.status["joints"][2]["qos"] == asked and fusion.value("joints", "adapted") == adapted
    )
    received = fusion.value("joints", "received")
    start("sensor_sim", *rates(joints=1000))
    fusion.until(lambda: fusion.value("joints", "received") > received + 500, "it comes again")
    assert fusion.value("joints", "adapted") == adapted


@pytest.mark.slow("floods")
def test_each_large_message_arrives_best_effort(ros, start, tmp_path):
    """Camera images of 0.9 MB and clouds of 2 MB, with the file that robocache ships for this middleware."""
    streams = large_streams()
    fusion = start_fusion(ros, start, tmp_path, {"streams": streams}, publish=False).warm_up()
    fusion.advance(T0)
    publishers = {}
    for name, spec in streams.items():
        kind = type_of(spec["type"])
        publishers[name] = ros.node.create_publisher(kind, spec["topic"], BEST_EFFORT)
        fusion.await_value(name, "publishers", 1)
        fusion.until(lambda name=name: publishers[name].get_subscription_count() > 0, "it is found")
    messages = {Image: an_image(), PointCloud2: a_cloud()}
    # If there is no room, one may be lost. So the next ones come when the last ones have arrived.
    for k in range(20):
        for publisher in publishers.values():
            message = messages[publisher.msg_type]
            message.header.stamp = time_message(T0 + k)
            publisher.publish(message)
        for name in streams:
            fusion.await_value(name, "received", k + 1)
    for name in streams:
        for key in ("lost", "queue_full", "dropped.malformed"):
            assert fusion.value(name, key) == 0, (name, key)


def an_image():
    """An image of 0.9 MB."""
    return Image(
        width=640, height=480, encoding="rgb8", step=1920, data=array("B", bytes(480 * 1920))
    )


def a_cloud():
    """A cloud of 2.1 MB."""
    points = 128 * 1024
    fields = [
        PointField(name=name, offset=4 * k, datatype=PointField.FLOAT32, count=1)
        for k, name in enumerate(["x", "y", "z", "intensity"])
    ]
    data = array("B", bytes(16 * points))
    return PointCloud2(
        height=1, width=points, fields=fields, point_step=16, row_step=16 * points, data=data
    )
