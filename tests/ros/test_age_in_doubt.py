"""Values whose age is in doubt are not fresh: stamps that are ahead, standstills, and latched messages after a reset."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
import waiting
from fusion import MS, T0, WRENCH, segments, stamped, start_fusion, wrench
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.msg import Log
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

#: What counts a message that no value comes from.
GONE = ("dropped.cleared", "lost")
#: How far the clock of the sensor is ahead [ns]: no pause of this machine is as long.
AHEAD_NS = 3_000_000 * MS


@pytest.mark.parametrize("offset_ms", [0, -3_000_000])
def test_a_sensor_whose_clock_is_ahead_is_told_with_the_offset_that_helps(
    ros, start, tmp_path, offset_ms
):
    errors = []
    qos = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    ros.node.create_subscription(
        Log, "/rosout", lambda log: errors.append(log.msg) if log.level == 40 else None, qos
    )
    stream = {**WRENCH, "max_age_ms": 1000, "stamp_offset_ms": offset_ms}
    config = {"streams": {"wrench": stream}}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False)
    for _ in range(120):
        fusion.send("wrench", wrench(time.time_ns() + AHEAD_NS, 1, 2, 3))
        ros.spin_for(0.005)
    fusion.settle()
    counts = [fusion.value("wrench", key) for key in ("accepted", "dropped.ahead")]
    if offset_ms:
        assert counts == [120, 0]
        assert not errors
        return
    assert counts == [0, 120]
    fusion.until(lambda: errors, "the error")
    (error,) = errors
    assert "stream 'wrench' (wrench): all of the first 100 messages were dropped, ahead: " in error
    (advised,) = re.findall(r"stamp_offset_ms: (-\d+)$", error)
    # The way of the message is not known.
    assert -3_000_000 <= int(advised) < -2_900_000
    advice = (
        "ahead of the node's clock: synchronise the clocks (chrony, ptp), set stamp_offset_ms to -"
    )
    fusion.until(lambda: any(advice in words for _, words in fusion.said), "the status says it")


def is_stopped(pid):
    """True if a signal has stopped all threads of a process."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(stat.read_text().rpartition(") ")[2].startswith("T") for stat in threads)


def test_what_waited_while_the_node_stood_still_is_not_fresh(ros, start, tmp_path):
    """The middleware receives it when the node runs again: the receive stamp says now."""
    stream = {**WRENCH, "max_age_ms": 100_000, "strategy": "hold", "timeline": "receive"}
    config = {"streams": {"wrench": stream}}
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False)
    fusion.send("wrench", wrench(T0, 1, 1, 1))
    fusion.settle()
    os.kill(fusion.process.pid, signal.SIGSTOP)
    try:
        waiting.until(lambda: is_stopped(fusion.process.pid), "the node has stopped")
        for _ in range(5):
            fusion.publishers["wrench"].publish(wrench(T0, 2, 2, 2))
            time.sleep(0.1)
        time.sleep(2)
    finally:
        os.kill(fusion.process.pid, signal.SIGCONT)
    forces = []

    def fresh():
        fusion.publishers["wrench"].publish(wrench(T0, 3, 3, 3))
        ros.spin_for(0.1)
        messages = [fusion.tensors.pop(tick) for tick in sorted(fusion.tensors)]
        found = [segments(message)["wrench"] for message in messages]
        forces.extend(of.array[0, 0] for of in found if of.valid[0])
        return 3.0 in forces

    fusion.until(fresh, "a fresh value")
    # They were dropped, or lost if Fast DDS cut the node off.
    fusion.until(
        lambda: fresh() and sum(fusion.value("wrench", key) for key in GONE) >= 5,
        "what waited is counted",
    )
    assert 2.0 not in forces


def test_a_latched_message_survives_resets_of_the_simulator(ros, start, tmp_path):
    pose = {
        **WRENCH,
        "type": "geometry_msgs/msg/PoseStamped",
        "fields": ["position"],
        "strategy": "hold",
        "max_age_ms": 100_000,
        "qos": {"durability": "transient_local", "reliability": "reliable"},
    }
    del pose["topic"]
    config = {
        "streams": {
            "by_arrival": {**pose, "topic": "/map", "timeline": "receive"},
            "by_header": {**pose, "topic": "/map_by_header"},
        }
    }
    latched = QoSProfile(
        depth=1,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
    )
    topics = ("/map", "/map_by_header")
    publishers = [ros.node.create_publisher(PoseStamped, topic, latched) for topic in topics]
    message = stamped(PoseStamped, T0 + 30 * MS)
    message.pose.position.x = 7.0
    # Before the clock runs, as a map server does.
    for publisher in publishers:
        publisher.publish(message)
    fusion = start_fusion(ros, start, tmp_path, config, publish=False)
    # The other one counts as received when the clock runs.
    fusion.await_value("by_header", "received", 1)
    fusion.await_value("by_arrival", "publishers", 1)

    def tick(ns):
        wanted = fusion.tick_of(ns)

        def served():
            fusion.set_clock(ns)
            return ros.spin_for(1.0, until=lambda: wanted in fusion.tensors)

        fusion.tensors.pop(wanted, None)
        fusion.until(served, f"tick {wanted}")
        found = segments(fusion.tensors[wanted])
        return {name: (of.valid[0], of.age_ns[0]) for name, of in found.items()}

    fusion.advance(T0 + 90 * MS)
    fusion.await_value("by_arrival", "received", 1)
    found = tick(T0 + 100 * MS)
    assert found["by_arrival"][0] and found["by_header"] == (True, 70 * MS)
    for reset in range(2):
        # The stamp of the second is ahead of the new epoch.
        fusion.advance(T0 - 5_000 * MS)
        found = tick(T0 - 4_900 * MS)
        assert found["by_arrival"] == (True, 100 * MS), reset
        assert not found["by_header"][0], reset
        told = "publish it again, or set timeline: receive"
        fusion.until(lambda: told in fusion.status["by_header"][1], "the status says it")
        assert told not in fusion.status["by_arrival"][1]
        assert fusion.process.output.count(told) == reset + 1
        fusion.advance(T0 + 90 * MS)
    message.header.stamp.sec -= 10
    publishers[1].publish(message)
    fusion.await_value("by_header", "dropped.ahead", 2)
    fusion.until(lambda: told not in fusion.status["by_header"][1], "the new one counts")
    fusion.advance(T0 - 5_000 * MS)
    assert all(valid for valid, _ in tick(T0 - 4_900 * MS).values())
