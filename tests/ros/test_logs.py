"""The node's logs, and its reports of silence."""

import array
import fcntl
import itertools
import signal
import subprocess
import termios

import processes
import pytest
from fusion import (
    BEST_EFFORT,
    MS,
    PATIENCE,
    RELIABLE,
    T0,
    WRENCH,
    publish_now,
    start_fusion,
    subscribe_tensors,
    time_message,
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

    assert ros.spin_until(seen, PATIENCE), (logs, node.output)
    assert seen()[0][:2] == (20, "fusion_node")
    node.stop()
    assert ros.spin_until(lambda: any("SIGINT" in text for _, _, text in logs)), logs


def test_an_error_at_the_start_reaches_rosout(ros, start, logs, config_file, node_faults, tmp_path):
    """The node waits a second for a subscriber. With Fast DDS, a new node may be found later (src/fastdds/mod.rs)."""
    (tmp_path / "fault").touch()
    env = node_faults(serve=tmp_path / "fault")
    given = ["--ros-args", "-p", f"config_file:={config_file}"]
    what = "offer the service "

    def told():
        logs.clear()
        node = start("fusion_node", *given, expected_code=1, env=env)
        assert ros.spin_until(lambda: not node.running)
        assert node.wait() == 1 and node.output.count(what) == 1
        ros.spin_for(0.5)
        return [level for level, _, text in logs if what in text]

    found = next(filter(None, (told() for _ in range(5))), [])
    assert found == [40]


def test_silence_is_explained_once_by_the_publishers_seen(ros, start, logs, tmp_path):
    topics = ("/nobody", "/lossy", "/other_type", "/idle", "/fine")
    streams = {topic[1:]: {**WRENCH, "topic": topic} for topic in topics}
    node = ros.node
    node.create_publisher(WrenchStamped, "/lossy", BEST_EFFORT)
    node.create_publisher(TwistStamped, "/other_type", RELIABLE)
    node.create_publisher(WrenchStamped, "/idle", RELIABLE)
    fine = node.create_publisher(WrenchStamped, "/fine", RELIABLE)
    path = write_config(tmp_path, {"rate_hz": 50, "streams": streams})
    given = ["-p", f"config_file:={path}", "-p", "diagnostics_period_s:=0.2"]
    process = start("fusion_node", "--ros-args", *given)
    silent = ("/nobody", "/other_type", "/idle")

    def all_said():
        publish_now(ros, fine)
        ros.spin_until(lambda: False, 0.05)
        return all(silence(logs, topic) for topic in silent)

    assert ros.spin_until(all_said, PATIENCE), (logs, process.output)
    me = "/test_client"
    expected = {
        "/nobody": "no publisher on /nobody: is the name right, and its node running?",
        "/other_type": f"publishers seen: {me} (geometry_msgs/msg/TwistStamped, reliable, "
        "volatile); the types differ: this stream expects geometry_msgs/msg/WrenchStamped",
        "/idle": f"publishers seen: {me} (geometry_msgs/msg/WrenchStamped, reliable, volatile); "
        "types and quality of service match: it publishes nothing",
    }
    for topic, words in expected.items():
        assert words in silence(logs, topic)[0], topic
    # After several diagnostics there is no second line, and none about the healthy stream.
    said = len(logs)
    ros.spin_until(lambda: publish_now(ros, fine), 1.5)
    assert [text for _, _, text in logs[said:] if "no message in" in text] == []
    assert not silence(logs, "/fine")
    # A profile that cannot match is reported at once. So the later silence is not reported again.
    refused = [text for _, _, text in logs if "stream 'lossy'" in text]
    assert len(refused) == 1 and not silence(logs, "/lossy")
    assert f"nothing comes from {me} (best_effort, volatile)" in refused[0]
    warnings = [text for level, _, text in logs if level == 30 and "no message in" in text]
    assert len(warnings) == len(silent)


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
        ros.spin_until(lambda: False, 0.02)
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
    node = processes.popen([executable, "--ros-args", *given], stderr=subprocess.PIPE)
    try:
        tensors = subscribe_tensors(ros, "/fused_tensor")
        clock = ros.node.create_publisher(Clock, "/clock", RELIABLE)
        assert ros.spin_until(lambda: clock.get_subscription_count() > 0, PATIENCE)

        def full():
            # Each causes a line in the log.
            for _ in range(20):
                clock.publish(b"\x00\x01\x00\x00\x01\x00")
            waiting = array.array("i", [0])
            fcntl.ioctl(node.stderr, termios.FIONREAD, waiting)
            return waiting[0] > 60_000

        assert ros.spin_until(full, PATIENCE), "the pipe is full"
        ros.spin_until(lambda: full() and False, 0.5)
        tick = itertools.count(T0 // (20 * MS))

        def ticking():
            ns = next(tick) * 20 * MS
            clock.publish(Clock(clock=time_message(ns)))
            ros.spin_until(lambda: False, 0.01)
            return len(tensors) > 5

        assert ros.spin_until(ticking, PATIENCE), "the node goes on ticking"
        node.send_signal(signal.SIGINT)
        assert node.wait(PATIENCE) == 0
    finally:
        node.kill()
        node.communicate()
