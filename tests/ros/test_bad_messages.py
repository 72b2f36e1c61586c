"""Bad messages: each is dropped and counted under the right reason, and good ones are taken after it."""

import copy
import struct

import numpy as np
from fusion import MS, T0, stamped, start_fusion, streams, wrench
from geometry_msgs.msg import TwistStamped
from in_process import InProcess
from PIL import Image as Pillow
from test_clouds import CLOUD, LAYOUTS, cloud_message, random_points
from test_images import SIZE, image_message
from test_messages import JOINTS, imu, joint_state, pose

BAD_STREAMS = {
    name: {**spec, "frame_id": "right_here"} if name == "wrench" else spec
    for name, spec in streams(
        joints=JOINTS,
        wrench={"type": "geometry_msgs/msg/WrenchStamped"},
        imu={"type": "sensor_msgs/msg/Imu"},
        pose={"type": "geometry_msgs/msg/PoseStamped"},
        half={"type": "geometry_msgs/msg/TwistStamped", "dtype": "f16"},
        camera={"type": "sensor_msgs/msg/Image", "image": {"resize": SIZE}},
        cloud=CLOUD["cloud"],
    ).items()
}


def good_messages(ns):
    """One good message for each topic."""
    picture = Pillow.fromarray(np.full((20, 30, 3), 200, np.uint8))
    good = {
        "/joints": joint_state(ns, JOINTS["joints"], [1, 2, 3], [4, 5, 6], [7, 8, 9]),
        "/wrench": wrench(ns, 1, 2, 3),
        "/imu": imu(ns, (0, 0, 0, 1), (1, 2, 3), (4, 5, 6)),
        "/pose": pose(ns, (1, 2, 3), (0, 0, 0, 1)),
        "/half": stamped(TwistStamped, ns),
        "/camera": image_message(ns, picture, "rgb8", padding=2),
        "/cloud": cloud_message(ns, random_points(5), **LAYOUTS[1]),
    }
    good["/wrench"].header.frame_id = "right_here"
    return good


def change(path, value):
    """Sets an attribute of a message by its path."""

    def apply(message):
        *parents, last = path.split(".")
        for name in parents:
            message = getattr(message, name)
        setattr(message, last, value(getattr(message, last)) if callable(value) else value)

    return apply


def change_field(which, **changes):
    def apply(message):
        (field,) = (f for f in message.fields if f.name == which)
        for key, value in changes.items():
            setattr(field, key, value)

    return apply


def no_estimate(message):
    """Marks a value as absent: sensor_msgs/Imu sets a covariance's first element to -1."""
    message.orientation_covariance[0] = -1.0


# (topic, change of a good message, expected drop reason)
BAD = [
    ("/joints", change("name", ["hip", "knee", "toe"]), "missing_field"),
    ("/joints", change("name", ["hip", "knee", "ankle", "hip"]), "malformed"),
    ("/joints", change("position", [0.0, float("nan"), 0.0]), "non_finite"),
    ("/joints", change("velocity", [0.0, 0.0, float("-inf")]), "non_finite"),
    ("/joints", change("position", [0.0, 1e39, 0.0]), "out_of_range"),
    ("/joints", change("effort", [0.0, 1.0]), "malformed"),
    ("/joints", change("effort", []), "missing_field"),
    ("/wrench", change("header.frame_id", "elsewhere"), "wrong_frame"),
    ("/wrench", change("header.frame_id", ""), "wrong_frame"),
    ("/wrench", change("wrench.torque.y", float("inf")), "non_finite"),
    ("/imu", no_estimate, "missing_field"),
    ("/imu", change("orientation.w", 0.0), "out_of_range"),
    ("/imu", change("orientation.x", float("nan")), "non_finite"),
    ("/pose", change("pose.orientation.w", 2.0), "out_of_range"),
    ("/half", change("twist.linear.x", 65_520.0), "out_of_range"),
    ("/camera", change("encoding", "16UC1"), "unsupported"),
    ("/camera", change("encoding", "8UC3"), "unsupported"),
    ("/camera", change("encoding", "bayer_rggb12"), "unsupported"),
    ("/camera", change("encoding", ""), "unsupported"),
    ("/camera", change("data", lambda data: data[:-3]), "malformed"),
    ("/camera", change("data", b""), "malformed"),
    ("/camera", change("step", 89), "malformed"),
    ("/camera", change("step", 0), "malformed"),
    ("/camera", change("width", 0), "malformed"),
    ("/camera", change("height", 2**32 - 1), "too_large"),
    ("/cloud", change("data", lambda data: data[:-6]), "malformed"),
    ("/cloud", change("row_step", lambda step: step - 6), "malformed"),
    ("/cloud", change("width", 2**32 - 1), "malformed"),
    ("/cloud", change("fields", lambda fields: fields[:-1]), "missing_field"),
    ("/cloud", change("fields", []), "missing_field"),
    ("/cloud", change_field("intensity", offset=30), "malformed"),
    ("/cloud", change_field("intensity", offset=2**32 - 1), "malformed"),
    ("/cloud", change_field("intensity", datatype=9), "unsupported"),
    ("/cloud", change_field("intensity", count=2), "unsupported"),
    ("/cloud", change_field("x", datatype=0), "unsupported"),
    ("/cloud", change_field("time", name="x"), "malformed"),
]
BAD += [(topic, change("header.stamp.sec", 0), "zero_stamp") for topic in good_messages(T0)]
BAD += [(topic, change("header.stamp.nanosec", 10**9), "bad_stamp") for topic in good_messages(T0)]


def bad_messages():
    """(topic, message, reason) of all bad messages; the last ones are raw bytes."""
    for topic, apply, reason in BAD:
        message = copy.deepcopy(good_messages(T0 + MS)[topic])
        if reason == "zero_stamp":
            message.header.stamp.nanosec = 0
        apply(message)
        yield topic, message, reason
    for topic in good_messages(T0):
        # Little-endian CDR that ends inside the header, and a string that is too long.
        yield topic, b"\x00\x01\x00\x00" + struct.pack("<iI", 5, 6), "malformed"
        yield topic, b"\x00\x01\x00\x00" + struct.pack("<iII", 5, 6, 2**32 - 1), "malformed"


def test_bad_messages_are_dropped_and_counted_and_good_ones_are_taken():
    fusion = InProcess({"streams": BAD_STREAMS})
    for topic, message in good_messages(T0).items():
        fusion.send(topic, message)
    before = fusion.tick(T0)
    assert all(segment.valid == [True] for segment in before.values())
    for topic, message, reason in bad_messages():
        fusion.check_drops(topic, [(message, reason)])
    assert all(fusion.value(name, "rows") == 1 for name in BAD_STREAMS)

    # None of them changed the tensor, and good messages are still taken.
    after = fusion.tick(T0 + 20 * MS)
    for name, segment in after.items():
        np.testing.assert_array_equal(segment.array, before[name].array, err_msg=name)
        assert segment.age_ns == [20 * MS], name
    for topic, message in good_messages(T0 + 25 * MS).items():
        fusion.send(topic, message)
    for name, segment in fusion.tick(T0 + 30 * MS).items():
        assert (segment.valid, segment.age_ns) == ([True], [5 * MS]), name


def test_the_drop_is_explained_once_in_the_log(ros, start, tmp_path):
    config = {"streams": {name: BAD_STREAMS[name] for name in ("joints", "camera")}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    for k in range(3):
        message = joint_state(T0 + k * MS, ["hip", "knee"], [1, 2], [1, 2], [1, 2])
        fusion.send("/joints", message)
    fusion.settle()
    words = "stream 'joints' (/joints): message dropped, missing_field: name: ankle is missing"
    output = fusion.process.wait_for(words)
    assert output.count("message dropped, missing_field") == 1
