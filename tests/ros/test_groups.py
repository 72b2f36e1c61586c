"""Joints in groups: drivers of an arm and a gripper, on one topic and on two."""

import numpy as np
from fusion import BEST_EFFORT, MS, NO_AGE, RELIABLE, T0, f32, start_fusion, streams
from in_process import InProcess
from sensor_msgs.msg import JointState
from test_messages import joint_state

GROUPS = {"arm": ["hip", "knee"], "gripper": ["finger"]}
JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "fields": ["position", "velocity"],
    "groups": GROUPS,
    "strategy": "linear",
    "max_gap_ms": 50,
}


def arm(ns, position, velocity):
    """The arm's message, with the joints in another order."""
    return joint_state(ns, ["knee", "hip"], position[::-1], velocity[::-1])


def gripper(ns, position, velocity):
    """The gripper's message."""
    return joint_state(ns, ["finger"], [position], [velocity])


def check_groups(fusion, arm_topic, gripper_topic):
    """Each group is resampled by itself. The step is valid if both are."""
    fusion.send(arm_topic, arm(T0 - 4 * MS, [1, 2], [10, 20]))
    got = fusion.tick(T0)["joints"]
    assert (got.valid, got.age_ns) == ([False], [NO_AGE])
    assert not got.array.any(), "the whole invalid step is filled"
    fusion.send(gripper_topic, gripper(T0 - 10 * MS, 5, 50))
    fusion.send(gripper_topic, gripper(T0 + 10 * MS, 7, 70))
    fusion.send(arm_topic, arm(T0 + 12 * MS, [5, 6], [50, 60]))
    got = fusion.tick(T0 + 10 * MS)["joints"]
    # The target is 14 of 16 ms after the arm's first row; the gripper has a row at the target.
    expected = f32([1 + 3.5, 2 + 3.5, 7, 10 + 35, 20 + 35, 70])
    np.testing.assert_array_equal(got.array, expected[None])
    assert (got.valid, got.age_ns) == ([True], [0]), "the greatest of -2 ms and 0"


def test_groups_of_two_topics_are_served_as_one_list():
    inputs = [{"topic": "/arm"}, {"topic": "/gripper"}]
    fusion = InProcess({"streams": streams(joints={**JOINTS, "inputs": inputs})})
    check_groups(fusion, "/arm", "/gripper")
    assert fusion.value("/gripper", "accepted") == fusion.value("/arm", "accepted") == 2
    assert fusion.value("joints", "rows") == 4


def test_groups_of_one_topic():
    fusion = InProcess({"streams": streams(joints=JOINTS)})
    check_groups(fusion, "/joints", "/joints")

    # An incomplete group is left out, and the other one is taken.
    names = ["finger", "hip"]
    assert fusion.send("/joints", joint_state(T0 + 20 * MS, names, [9, 1], [90, 1])).rows == 1
    assert fusion.value("joints", "rows") == 5
    # If no group is complete, the message is dropped.
    lone = joint_state(T0 + 20 * MS, ["hip"], [1], [1])
    fusion.check_drops("/joints", [(lone, "missing_field")])


def test_a_dropped_group_is_told_with_its_reason(ros, start, tmp_path):
    """If the arm has a NaN, the gripper is taken, and the status says why the arm is not."""
    fusion = start_fusion(ros, start, tmp_path, {"streams": streams(joints=JOINTS)}).warm_up()
    names = ["hip", "knee", "finger"]
    fusion.send("/joints", joint_state(T0, names, [float("nan"), 1, 2], [0, 0, 0]))
    fusion.await_value("joints", "parts_dropped", 1)
    fusion.fence()
    assert fusion.value("joints", "parts_dropped.non_finite") == 1
    assert fusion.value("joints", "accepted") == 1
    said = "1 groups dropped: non_finite"
    fusion.until(lambda: any(said in words for _, words in fusion.said), "the status says it")
    fusion.process.wait_for("a part of a message dropped, non_finite")


def test_a_group_that_never_comes_is_named(ros, start, tmp_path):
    """The message has the gripper's joint under another name: status and log name the group."""
    fusion = start_fusion(ros, start, tmp_path, {"streams": streams(joints=JOINTS)}).warm_up()
    fusion.send("/joints", joint_state(T0, ["hip", "knee", "finger_joint"], [1, 2, 3], [4, 5, 6]))
    said = "no message so far gave all of: finger.position, finger.velocity"
    fusion.until(lambda: any(said in words for _, words in fusion.said), "the status says it")
    fusion.process.wait_for(said)


def test_complete_publishers_on_one_topic_lose_nothing(ros, start, tmp_path):
    """Arm and gripper publish at one rate and at different phases: nothing is lost or missing."""
    fusion = start_fusion(ros, start, tmp_path, {"streams": streams(joints=JOINTS)}).warm_up()
    second = ros.node.create_publisher(JointState, "/joints", RELIABLE)
    fusion.until(lambda: second.get_subscription_count() > 0, "the second publisher is found")
    fusion.publishers["second"], fusion.sent["second"] = second, 0
    for k in range(100):
        ns = T0 + (k - 100) * MS
        fusion.publishers["/joints"].publish(arm(ns, [1, 2], [3, 4]))
        second.publish(gripper(ns + MS // 10, 5, 6))
    fusion.await_value("joints", "received", 200)
    fusion.fence()
    for key in ("lost", "missing", "queue_full", "dropped"):
        assert fusion.value("joints", key) == 0, key
    said = [words for part, words in fusion.said if part == "joints"]
    assert not any("lost" in words or "missing" in words for words in said), said


def test_a_publisher_that_is_refused_beside_another_is_named(ros, start, tmp_path):
    """A best-effort publisher beside a reliable one: the stream asks for reliable delivery."""
    config = {"streams": streams(joints={**JOINTS, "qos": {"reliability": "reliable"}})}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    _second = ros.node.create_publisher(JointState, "/joints", BEST_EFFORT)
    fusion.send("/joints", arm(T0, [1, 2], [3, 4]))
    said = "nothing comes from /test_client (best_effort, volatile), because this stream asks for"
    fusion.until(lambda: any(said in words for _, words in fusion.said), "the status says it")
    fusion.process.wait_for(said)
    # The middleware's event says the same.
    fusion.await_value("joints", "publishers_incompatible", 1)
    fusion.fence()
    assert fusion.process.output.count(said) == 1
