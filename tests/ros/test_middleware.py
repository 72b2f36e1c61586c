"""Which middleware answers, and what the node says of it. `make test-ros RMW=cyclonedds` chooses another one."""

import os
import signal
import socket
import time

import middlewares
import pytest
import yaml
from conftest import REPOSITORY
from fusion import start_fusion, write_config
from rclpy.utilities import get_rmw_implementation_identifier
from test_overload import JOINTS, ONLY_JOINTS, report_of, start_robot, stop_for

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


def vendor_of_first_packet(domain_id, timeout=30.0):
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
@pytest.mark.alone
def test_losses_that_nobody_counts_are_not_reported_as_none(ros, start, tmp_path):
    """A queue that overflows: CycloneDDS tells the node of no message that it dropped."""
    joints = {**JOINTS, "qos": {"reliability": "best_effort", "depth": 16}}
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"joints": joints}}, sim_time=False)
    robot = start_robot(ros, start, fusion, *ONLY_JOINTS)
    fusion.until(lambda: fusion.value("joints", "received") > 500, "joints at 1 kHz")
    stop_for(ros, fusion, 0.5)
    received = fusion.value("joints", "received")
    fusion.until(lambda: fusion.value("joints", "received") > received + 1000, "joints go on")
    assert robot.stop() == 0
    ros.spin_for(1.5)
    not_heard = report_of(robot)["sent"] - fusion.value("joints", "received")
    assert not_heard > 100, "messages were lost"
    values = fusion.status["joints"][2]
    assert (values["lost"], values["queue_full"]) == (NOT_COUNTED, NOT_COUNTED)
    assert fusion.value("joints", "missing") >= 0.8 * not_heard - 20, "the guess"
    fusion.process.wait_for("probably missing by their stamps' period")


@pytest.mark.alone
@pytest.mark.parametrize("seconds", [3, 12], ids=["a pause", "longer than the lease"])
def test_after_a_stop_of_its_own_the_node_blames_no_sensor(ros, start, tmp_path, seconds):
    """With CycloneDDS it needs no new connection, also if the others gave it up: they find each other again."""
    config = {"streams": {"joints": {**JOINTS, "qos": {}}, **large_streams()}}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, publish=False)
    robot = start("sensor_sim", "--wrench-hz", 0, "--imu-hz", 0, "--wait-subscribers", 1)
    names = list(config["streams"])
    fusion.until(lambda: all(fusion.value(n, "received") > 70 for n in names), "all streams")
    asked = {name: fusion.status[name][2]["qos"] for name in names}
    fusion.said.clear()
    stop_for(ros, fusion, seconds)
    before = {name: fusion.value(name, "received") for name in names}
    fusion.until(lambda: all(fusion.value(n, "received") > before[n] + 60 for n in names), "again")
    output = fusion.process.wait_for("the process stood still for ")
    output = output.partition("the process stood still for ")[2]
    said = [words for part, words in fusion.said if part in names]
    for blame in ("no message in", "no publisher", "not arrive", "publishes nothing", "instead of"):
        assert not any(blame in words for words in said), (blame, said)
        assert blame not in output, output
    assert ": subscribed again with" not in output, output
    for name in names:
        assert fusion.status[name][2]["qos"] == asked[name]
        assert (fusion.value(name, "resubscribed") > 0) == (middlewares.IN_USE == "fastrtps")
    assert robot.running


@cyclonedds_only
def test_a_publisher_that_was_killed_leaves_the_request_as_it_was(ros, start, tmp_path):
    """The graph shows it until its lease of 10 s is over. Then no publisher is there, so nobody has changed."""
    config = {"streams": {"joints": {**JOINTS, "qos": {}}}}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, publish=False)
    robot = start("sensor_sim", *ONLY_JOINTS, expected_code=-signal.SIGKILL)
    asked = "reliable, volatile"
    fusion.until(lambda: fusion.status["joints"][2]["qos"] == asked, "what the robot offers")
    adapted = fusion.value("joints", "adapted")
    os.kill(robot.pid, signal.SIGKILL)
    killed = time.monotonic()
    fusion.await_value("joints", "publishers", 0)
    assert 5 < time.monotonic() - killed < 30, "the lease"
    ros.spin_for(2)
    assert (
        fusion.status["joints"][2]["qos"] == asked and fusion.value("joints", "adapted") == adapted
    )
    received = fusion.value("joints", "received")
    start("sensor_sim", *ONLY_JOINTS)
    fusion.until(lambda: fusion.value("joints", "received") > received + 500, "it comes again")
    assert fusion.value("joints", "adapted") == adapted


@pytest.mark.alone
def test_large_messages_arrive_best_effort(ros, start, tmp_path):
    """Camera images of 0.9 MB and clouds of 2 MB, with the file that robocache ships for this middleware."""
    streams = large_streams()
    config = {"streams": streams}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, publish=False)
    options = ["--joints-hz", 0, "--wrench-hz", 0, "--imu-hz", 0, "--wait-subscribers", 1]
    robot = start("sensor_sim", *options, "--reliability", "best_effort")
    fusion.until(lambda: fusion.value("lidar", "received") > 50, "five seconds")
    assert robot.stop() == 0
    ros.spin_for(2.5)
    for name in streams:
        sent = report_of(robot, name)["sent"]
        assert fusion.value(name, "received") >= 0.98 * sent - 1, (name, sent, fusion.status[name])
