"""The node's logs, and its reports of silence."""

import array
import fcntl
import itertools
import os
import signal
import subprocess
import termios

import processes
import pytest
import waiting
from conftest import END_S
from fusion import (
    BEST_EFFORT,
    MS,
    RELIABLE,
    T0,
    WRENCH,
    publish_now,
    start_fusion,
    subscribe_tensors,
    time_message,
    wrench,
    write_config,
)
from geometry_msgs.msg import TwistStamped, WrenchStamped
from rcl_interfaces.msg import Log
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock


@pytest.fixture
def config_file(tmp_path):
    return write_config(tmp_path, {"rate_hz": 50, "streams": {"wrench": WRENCH}})


@pytest.fixture
def logs(ros):
    """The records of /rosout as (level, name, text)."""
    records = []
    qos = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    ros.node.create_subscription(
        Log, "/rosout", lambda log: records.append((log.level, log.name, log.msg)), qos
    )
    return records


def silence(logs, topic):
    """The records that report a silent topic."""
    return [text for _, _, text in logs if f"({topic}): no message in" in text]


def test_logs_reach_rosout(ros, start, logs, config_file):
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={config_file}")

    def seen():
        return [log for log in logs if "1 streams at 50 Hz on the " in log[2]]

    ros.spin_until(seen, "the line of the start", detail=lambda: f"{logs}\n{node.output}")
    assert seen()[0][:2] == (20, "fusion_node")
    node.stop()
    ros.spin_until(
        lambda: any("SIGINT" in text for _, _, text in logs), "its last words", detail=lambda: logs
    )


def test_an_error_at_the_start_reaches_rosout(ros, start, logs, config_file, node_faults, tmp_path):
    """The node waits a second for a subscriber. With Fast DDS, a new node may be found later (src/fastdds/mod.rs)."""
    (tmp_path / "fault").touch()
    env = node_faults(serve=tmp_path / "fault")
    given = ["--ros-args", "-p", f"config_file:={config_file}"]
    what, started, levels = "offer the service ", [], []

    def told():
        node = start("fusion_node", *given, expected_code=1, env=env)
        started.append(node)
        ros.spin_until(lambda: not node.running, "the end of the node", detail=lambda: node.output)
        assert node.wait() == 1 and node.output.count(what) == 1
        # What it said before it ended. If it was not heard, the next one says it again.
        ros.spin_for(0.5)
        levels[:] = [level for level, _, text in logs if what in text]
        return levels

    ros.spin_until(told, "the error on /rosout")
    assert set(levels) == {40} and len(levels) <= len(started)


def test_silence_is_explained_once_by_the_publishers_seen(ros, start, logs, tmp_path):
    """Silence is measured on the node's clock, which begins when the node knows the publishers."""
    topics = ("/nobody", "/lossy", "/other_type", "/idle", "/fine")
    config = {"streams": {topic[1:]: {**WRENCH, "topic": topic} for topic in topics}}
    node, publishers = ros.node, []
    publishers.append(node.create_publisher(WrenchStamped, "/lossy", BEST_EFFORT))
    publishers.append(node.create_publisher(TwistStamped, "/other_type", RELIABLE))
    publishers.append(node.create_publisher(WrenchStamped, "/idle", RELIABLE))
    fine = node.create_publisher(WrenchStamped, "/fine", RELIABLE)
    fusion = start_fusion(ros, start, tmp_path, config, publish=False)
    for topic in topics[1:]:
        fusion.await_value(topic[1:], "publishers", 1)
    # A profile that cannot match is reported at once. So the later silence is not reported again.
    me = "/test_client"
    refused = f"nothing comes from {me} (best_effort, volatile)"
    fusion.until(lambda: any(refused in text for _, _, text in logs), "the publisher is refused")
    silent = ("/nobody", "/other_type", "/idle")
    seconds = itertools.count(T0, 1000 * MS)

    def a_second_later():
        ns = next(seconds)
        fine.publish(wrench(ns, 1, 2, 3))
        fusion.advance(ns)

    def all_said():
        a_second_later()
        return all(silence(logs, topic) for topic in silent)

    fusion.until(all_said, "each silence is explained")
    expected = {
        "/nobody": "no publisher on /nobody: is the name right, and its node running?",
        "/other_type": f"publishers seen: {me} (geometry_msgs/msg/TwistStamped, reliable, "
        "volatile); the types differ: this stream expects geometry_msgs/msg/WrenchStamped",
        "/idle": f"publishers seen: {me} (geometry_msgs/msg/WrenchStamped, reliable, volatile); "
        "types and quality of service match: it publishes nothing",
    }
    for topic, words in expected.items():
        assert words in silence(logs, topic)[0], topic
    # After several reports there is no second line, and none about the healthy stream.
    said = len(logs)
    for _ in range(5):
        a_second_later()
    # A later line of the log has come.
    fusion.process.stop()
    fusion.until(lambda: any("SIGINT" in text for _, _, text in logs), "its last words")
    assert [text for _, _, text in logs[said:] if "no message in" in text] == []
    assert not silence(logs, "/fine") and not silence(logs, "/lossy")
    assert len([text for _, _, text in logs if refused in text]) == 1
    warnings = [text for level, _, text in logs if level == 30 and "no message in" in text]
    assert len(warnings) == len(silent)


def test_a_topic_that_nobody_publishes_is_told_with_a_similar_one(ros, start, logs, tmp_path):
    config = {"streams": {"ft": {**WRENCH, "topic": "/arm/ft"}}}
    # Another type does not count, however similar its name is.
    other = ros.node.create_publisher(TwistStamped, "/arm/ft_", RELIABLE)
    similar = ros.node.create_publisher(WrenchStamped, "/arm/left/ft", RELIABLE)
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, publish=False)
    words = "no publisher on /arm/ft: is the name right, and its node running?; did you mean"

    def told():
        return f"{words} /arm/left/ft?" in fusion.status.get("ft", (b"", ""))[1]

    fusion.until(told, "the status names the similar topic")
    fusion.until(lambda: silence(logs, "/arm/ft"), "the log line about the silence")
    ros.node.destroy_publisher(other)
    ros.node.destroy_publisher(similar)


def test_the_end_of_silence_is_logged(ros, start, logs, tmp_path):
    fusion = start_fusion(
        ros,
        start,
        tmp_path,
        {"streams": {"wrench": {**WRENCH, "topic": "/wrench"}}},
        sim_time=False,
    )
    fusion.until(lambda: silence(logs, "/wrench"), "the log line about the silence")
    fusion.until(lambda: fusion.status["wrench"][0] == b"\x03", "the level of silence")
    _, words, values = fusion.status["wrench"]
    assert "since the start" in words and values["publishers"] == "1"

    def arrives():
        publish_now(ros, fusion.publishers["/wrench"])
        ros.spin_for(0.02)
        return any("stream 'wrench' (/wrench) arrives again" in text for _, _, text in logs)

    fusion.until(arrives, "the log line about its end")
    fusion.until(
        lambda: publish_now(ros, fusion.publishers["/wrench"])
        or fusion.status["wrench"][0] < b"\x03",
        "the level falls",
    )


def test_a_stopped_reader_of_the_logs_delays_nothing(ros, install, config_file):
    executable = install / "lib" / "robocache_ros" / "fusion_node"
    given = ["-p", f"config_file:={config_file}", "-p", "use_sim_time:=true"]
    env = {**os.environ, "ROBOCACHE_END_S": str(END_S)}
    node = processes.popen([executable, "--ros-args", *given], stderr=subprocess.PIPE, env=env)
    try:
        tensors = subscribe_tensors(ros, "/fused_tensor")
        clock = ros.node.create_publisher(Clock, "/clock", RELIABLE)
        ros.spin_until(lambda: clock.get_subscription_count() > 0, "the node reads /clock")

        def full():
            # Each causes a line in the log.
            for _ in range(20):
                clock.publish(b"\x00\x01\x00\x00\x01\x00")
            unread = array.array("i", [0])
            fcntl.ioctl(node.stderr, termios.FIONREAD, unread)
            return unread[0] > 60_000

        ros.spin_until(full, "the pipe is full")
        for _ in range(50):
            assert full()
            ros.spin_for(0.01)
        tick = itertools.count(T0 // (20 * MS))

        def ticking():
            ns = next(tick) * 20 * MS
            clock.publish(Clock(clock=time_message(ns)))
            ros.spin_for(0.01)
            return len(tensors) > 5

        ros.spin_until(ticking, "the node goes on ticking")
        node.send_signal(signal.SIGINT)
        assert waiting.exit_code(node, "the node") == 0
    finally:
        node.kill()
        node.communicate()
