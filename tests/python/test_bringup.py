"""The configurations of examples/bringup, on bags with the types of their drivers."""

import json
import sys

import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
pytest.importorskip("rosbags")
import numpy as np  # noqa: E402 (what is missing is said first)
import waiting  # noqa: E402
from bags import MS, T0, header, joints, made, unorganized, write_bag  # noqa: E402
from conftest import REPOSITORY  # noqa: E402

import robocache  # noqa: E402

CONFIG = REPOSITORY / "examples" / "bringup" / "two_ur5e.yaml"
UR5E = "shoulder_pan shoulder_lift elbow wrist_1 wrist_2 wrist_3".split()
#: The points of livox_ros_driver2 with xfer_format 0: name, offset, datatype of a PointField.
LIVOX = (
    ("x", 0, 7),
    ("y", 4, 7),
    ("z", 8, 7),
    ("intensity", 12, 7),
    ("tag", 16, 2),
    ("line", 17, 2),
    ("timestamp", 18, 8),
)
#: A pixel of depth [mm], and a position of the gripper.
DEPTH_MM, OPENING = 1500, 0.04


def ur5e(ns, angle):
    """All joints of an arm at this angle and at rest, in another order than that of the configuration."""
    message = joints(ns, **{f"{name}_joint": angle for name in reversed(UR5E)})
    message.velocity = np.zeros(len(UR5E))
    return message


def pixels(ns, encoding, array):
    height, width = array.shape[:2]
    return made(
        "sensor_msgs/msg/Image",
        header=header(ns, "optical"),
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=0,
        step=array.nbytes // height,
        data=array.reshape(-1).view(np.uint8),
    )


def livox(ns):
    """A cloud in which one point is a metre before the sensor."""
    codes = {7: "<f4", 2: "u1", 8: "<f8"}
    kind = np.dtype(
        {
            "names": [name for name, _, _ in LIVOX],
            "formats": [codes[code] for _, _, code in LIVOX],
            "offsets": [offset for _, offset, _ in LIVOX],
            "itemsize": 26,
        }
    )
    table = np.zeros(1, kind)
    table["x"], table["timestamp"] = 1.0, ns
    field = "sensor_msgs/msg/PointField"
    fields = [made(field, name=n, offset=o, datatype=d, count=1) for n, o, d in LIVOX]
    return unorganized(header(ns, "livox_frame"), fields, table)


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """A second of the robot. Its left arm turns at 1 rad/s, and its right one at -1 rad/s."""
    messages = []
    colour = np.full((720, 1280, 3), 90, np.uint8)
    depth = np.full((720, 1280), DEPTH_MM, "<u2")
    for at in range(500):
        ns = T0 + at * 2 * MS
        for side, sign in (("left", 1), ("right", -1)):
            message = ur5e(ns, sign * at / 500)
            messages.append((f"/{side}/joint_states", ns + MS, message))
            if at % 16 == 0:
                where = f"/cameras/{side}"
                images = {
                    "color/image_raw": ("rgb8", colour),
                    "aligned_depth_to_color/image_raw": ("16UC1", depth),
                }
                messages += [
                    (f"{where}/{topic}", ns + 20 * MS, pixels(ns, *image))
                    for topic, image in images.items()
                ]
        if at % 25 == 0:
            messages.append(("/gripper/position", ns, made("std_msgs/msg/Float64", data=OPENING)))
        if at % 50 == 0:
            messages.append(("/livox/lidar", ns + 10 * MS, livox(ns)))
    messages.sort(key=lambda message: message[1])
    return write_bag(tmp_path_factory.mktemp("bringup") / "bag", messages)


def test_the_configuration_takes_what_the_drivers_send(bag):
    command = [sys.executable, "-m", "robocache", "check", str(CONFIG), "--bag", str(bag)]
    done = waiting.run(command)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "warning" not in done.stdout + done.stderr


def test_the_layout_for_foxglove_shows_what_the_drivers_send(bag, tmp_path):
    layout = tmp_path / "layout.json"
    command = [sys.executable, "-m", "robocache", "check", str(CONFIG), "--bag", str(bag)]
    command += ["--foxglove", str(layout)]
    assert waiting.run(command).returncode == 0
    panels = json.loads(layout.read_text())["configById"].values()
    images = {panel["imageMode"]["imageTopic"] for panel in panels if "imageMode" in panel}
    kinds = ("color", "aligned_depth_to_color")
    sent = {f"/cameras/{side}/{kind}/image_raw" for side in ("left", "right") for kind in kinds}
    assert {topic for topic in images if "/view/" not in topic} == sent
    (scene,) = (panel for panel in panels if "followTf" in panel)
    assert set(scene["topics"]) == {"/livox/lidar", "/fused_tensor/view/lidar"}


def test_each_arm_has_its_own_joints(bag):
    (episode,) = robocache.replay(str(bag), str(CONFIG))
    tensors = [tensor for tensor in episode if tensor.stamp_ns > T0 + 300 * MS]
    assert len(tensors) > 15
    for tensor in tensors:
        assert all(segment.valid.all() for segment in tensor.segments.values()), tensor.segments
        row = tensor["arms"].float32()[0]
        turned = (int(tensor["arms"].target_ns[0]) - T0) / 1e9
        assert np.allclose(row[:12], [turned] * 6 + [-turned] * 6, atol=1e-6)
        assert (row[12:] == 0).all()
        assert np.isclose(tensor["gripper"].float32()[0, 0], OPENING)
        assert np.isclose(tensor["depth_right"].float32().max(), DEPTH_MM / 1000)
        assert tensor["camera_left"].float32().max() == 90
        assert tensor["lidar"].float32()[0, 0].sum() == 1
