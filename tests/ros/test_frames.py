"""Frames: late transforms, missing links, new parents, and a reset of the clock."""

import time

import numpy as np
import pytest
from fusion import MS, RELIABLE, T0, stamped, start_fusion, streams
from geometry_msgs.msg import PoseStamped, TransformStamped
from in_process import InProcess
from rclpy.qos import DurabilityPolicy, QoSProfile
from scipy.spatial.transform import Rotation, Slerp
from sensor_msgs.msg import PointCloud2, PointField
from tf2_msgs.msg import TFMessage

LATCHED = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
GRID = {"origin_m": [0, 0, 0], "size_m": 1, "shape": [8, 8, 2], "channels": [{"reduce": "count"}]}
STREAMS = streams(
    pose={
        "type": "geometry_msgs/msg/PoseStamped",
        "in_frame": "map",
        "max_age_ms": 1000,
    },
    cloud={
        "type": "sensor_msgs/msg/PointCloud2",
        "t_base_sensor": "tf",
        "max_age_ms": 1000,
        "cloud": GRID,
    },
)
CONFIG = {"tf": {"wait_ms": 50}, "streams": STREAMS}


def transform(ns, parent, child, shift, turn=None):
    """A transform from a shift and a rotation of scipy."""
    message = stamped(TransformStamped, ns, child_frame_id=child)
    message.header.frame_id = parent
    to = message.transform
    to.translation.x, to.translation.y, to.translation.z = map(float, shift)
    quaternion = (turn or Rotation.identity()).as_quat()
    to.rotation.x, to.rotation.y, to.rotation.z, to.rotation.w = map(float, quaternion)
    return message


def pose(ns, frame, x):
    message = stamped(PoseStamped, ns)
    message.header.frame_id = frame
    message.pose.position.x = float(x)
    message.pose.orientation.w = 1.0
    return message


def cloud(ns, frame, point):
    """A cloud of one point."""
    fields = [PointField(name=n, offset=4 * i, datatype=7, count=1) for i, n in enumerate("xyz")]
    data = np.array(point, "<f4").tobytes()
    message = stamped(
        PointCloud2, ns, height=1, width=1, fields=fields, point_step=12, row_step=12, data=data
    )
    message.header.frame_id = frame
    return message


class Tree:
    """Publishes transforms to a running node."""

    def __init__(self, fusion):
        node = fusion.ros.node
        self.fusion, self.sent = fusion, {"tf /tf": 0, "tf_static /tf_static": 0}
        self.moving = node.create_publisher(TFMessage, "/tf", RELIABLE)
        self.fixed = node.create_publisher(TFMessage, "/tf_static", LATCHED)
        # The node makes a reliable subscription when it knows the publisher. What comes before may be lost.
        fusion.until(
            lambda: fusion.status["tf /tf"][2]["qos"].startswith("reliable"), "the node knows /tf"
        )

    def await_one_subscription(self):
        """Waits until only the reliable subscription is left.

        CycloneDDS drops what a publisher sends before it knows that subscription (docs/deploy.md).
        """
        self.fusion.until(lambda: self.moving.get_subscription_count() == 1, "one subscription")

    def move(self, *transforms):
        self._send("tf /tf", self.moving, transforms)

    def fix(self, *transforms):
        self._send("tf_static /tf_static", self.fixed, transforms)

    def _send(self, part, publisher, transforms):
        publisher.publish(TFMessage(transforms=list(transforms)))
        self.sent[part] += 1
        self.fusion.await_value(part, "received", self.sent[part])


@pytest.fixture
def rig(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, CONFIG).warm_up()
    return fusion, Tree(fusion)


def test_messages_are_taken_to_another_frame_at_their_stamp():
    fusion = InProcess(CONFIG)
    fusion.advance(T0)
    turns = Rotation.from_euler("xyz", [[0, 0, 0.2], [0.3, -0.4, 1.5]])
    mount = Rotation.from_euler("z", 0.7)
    fusion.fix(
        transform(T0, "map", "odom", [10, 0, 0]),
        transform(T0, "base_link", "arm", [0, 1, 0], mount),
    )
    fusion.move(
        transform(T0 - 40 * MS, "odom", "base_link", [1, 2, 3], turns[0]),
        transform(T0, "odom", "base_link", [3, 2, 3], turns[1]),
    )
    stamp = T0 - 13 * MS
    fusion.send("/pose", pose(stamp, "arm", 0.5))
    got = fusion.tick(T0 + 10 * MS)["pose"]
    weight = 27 / 40
    base = Slerp([0, 1], turns)(weight)
    place = np.array([10, 0, 0]) + [1 + 2 * weight, 2, 3] + base.apply([0, 1, 0])
    place += (base * mount).apply([0.5, 0, 0])
    assert got.valid == [True]
    np.testing.assert_allclose(got.array[0, :3], place, atol=1e-6)
    quaternion = (base * mount).as_quat()
    sign = np.sign(quaternion @ got.array[0, 3:])
    np.testing.assert_allclose(got.array[0, 3:], sign * quaternion, atol=1e-6)


def test_a_cloud_waits_for_a_late_transform_and_another_is_dropped(rig):
    fusion, tree = rig
    fusion.advance(T0)
    tree.move(transform(T0 - 50 * MS, "base_link", "lidar", [0, 0, 0]))
    fusion.send("/cloud", cloud(T0 - 25 * MS, "lidar", [0.5, 0.5, 0.5]))
    fusion.await_value("cloud", "waiting", 1)
    tree.move(transform(T0, "base_link", "lidar", [4, 0, 0]))
    segment = fusion.tick(T0 + 10 * MS)["cloud"]
    assert segment.valid == [True]
    assert np.argwhere(segment.array[0, 0]).tolist() == [[0, 0, 2]]
    # A link that nobody publishes.
    fusion.send("/cloud", cloud(T0 + 5 * MS, "camera", [0.5, 0.5, 0.5]))
    fusion.await_value("cloud", "waiting", 1)
    # The wait, and a little more for a transform that is on its way.
    fusion.advance(T0 + 300 * MS)
    fusion.await_value("cloud", "dropped.no_transform", 1)
    fusion.process.wait_for('frame "camera": expected in tf, found in no transform')
    fusion.await_value("cloud", "waiting", 0)


def test_a_frame_with_a_new_parent_has_none_in_between():
    fusion = InProcess(CONFIG)
    fusion.advance(T0)
    fusion.fix(
        transform(T0, "map", "gripper", [1, 0, 0]),
        transform(T0, "map", "table", [5, 0, 0]),
    )
    fusion.move(
        transform(T0 - 30 * MS, "gripper", "tool", [0, 0, 0]),
        transform(T0 - 10 * MS, "table", "tool", [0, 0, 0]),
    )
    fusion.check_drops("/pose", [(pose(T0 - 20 * MS, "tool", 0), "no_transform")])
    fusion.send("/pose", pose(T0 - 30 * MS, "tool", 0))
    fusion.send("/pose", pose(T0 - 10 * MS, "tool", 0))
    assert fusion.tick(T0 + 10 * MS)["pose"].array[0, 0] == 5.0


def test_a_reset_of_the_clock_keeps_what_is_latched(rig):
    fusion, tree = rig
    fusion.advance(T0)
    tree.fix(transform(T0, "map", "odom", [7, 0, 0]))
    tree.move(transform(T0, "odom", "base_link", [1, 0, 0]))
    fusion.send("/pose", pose(T0, "base_link", 0))
    assert fusion.tick(T0 + 10 * MS)["pose"].array[0, 0] == 8.0
    before = T0 - 60_000 * MS
    fusion.advance(before)
    fusion.send("/pose", pose(before, "base_link", 0))
    fusion.await_value("pose", "waiting", 1)
    tree.move(transform(before, "odom", "base_link", [2, 0, 0]))
    fusion.tensors.clear()
    segment = fusion.tick(before + 10 * MS)["pose"]
    assert (segment.valid, segment.array[0, 0]) == ([True], 9.0)


def test_a_looped_clock_refuses_no_transform_that_is_stamped_ahead(ros, start, tmp_path):
    """As `ros2 bag play --clock --loop` beside AMCL, which stamps map -> odom half a second ahead.

    The second pass takes longer than an old message may be on its way. These 5 s are the node's own, in real time.
    """
    config = {"tf": {"wait_ms": 1000}, "streams": {"pose": STREAMS["pose"]}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    tree = Tree(fusion)
    tree.await_one_subscription()
    for real_s in (0, 5.5):
        # A message before the first reading of a pass belongs to the pass before.
        fusion.advance(T0)
        began = time.monotonic()
        tree.move(transform(T0, "map", "odom", [1, 0, 0]))
        for step in range(0, 7000, 25):
            now = T0 + step * MS
            fusion.set_clock(now)
            if step % 50 == 0:
                ahead = transform(now + 500 * MS, "map", "odom", [1, 0, 0])
                tree.moving.publish(TFMessage(transforms=[ahead]))
                tree.sent["tf /tf"] += 1
            fusion.send("/pose", pose(now, "odom", 0))
            if step % 250 == 225:
                # Its clock is never more than a quarter of a second behind the messages.
                fusion.advance(now)
                fusion.await_value("tf /tf", "received", tree.sent["tf /tf"])
                fusion.settle()
                ros.spin_for(max(0, real_s * step / 7000 - (time.monotonic() - began)))
        fusion.settle()
    fusion.fence()
    assert fusion.value("tick", "clock_jumps") == 1
    assert fusion.value("tf /tf", "received") == tree.sent["tf /tf"]
    assert fusion.value("tf /tf", "dropped") == fusion.value("pose", "dropped") == 0


def test_who_starts_late_gets_the_fixed_transforms(ros, start, tmp_path):
    publisher = ros.node.create_publisher(TFMessage, "/tf_static", LATCHED)
    publisher.publish(TFMessage(transforms=[transform(T0 - 10**9, "map", "lidar", [0, 3, 0])]))
    fusion = start_fusion(ros, start, tmp_path, CONFIG).warm_up()
    fusion.advance(T0)
    fusion.until(
        lambda: fusion.value("tf_static /tf_static", "accepted") > 0, "the latched transforms"
    )
    fusion.send("/pose", pose(T0, "lidar", 0))
    assert fusion.tick(T0 + 10 * MS)["pose"].array[0, 1] == 3.0


SHAPES = streams(
    cloud={
        "type": "sensor_msgs/msg/PointCloud2",
        "t_base_sensor": {"translation_m": [0, 0, 1]},
        "max_age_ms": 1000,
        "cloud": {
            **GRID,
            "crop": [{"frame": "map", "min_m": [100, -9, -9], "max_m": [106, 9, 9]}],
            "self_filter": [
                {"frame": "tool", "radius_m": 0.6},
                {"frame": "forearm", "size_m": [1, 1, 1], "pose": {"translation_m": [0, 1, 0]}},
            ],
        },
    }
)


def test_a_self_filter_follows_the_arm_and_a_missing_link_drops_the_cloud():
    fusion = InProcess({"tf": {"wait_ms": 50}, "streams": SHAPES})
    fusion.advance(T0 - 40 * MS)
    turn = Rotation.from_euler("z", np.pi / 2)
    fusion.fix(
        transform(T0, "map", "base_link", [100, 0, 0], Rotation.from_euler("z", 0.1)),
        transform(T0, "forearm", "tool", [0, 0, 1]),
    )
    arm = [(0.5, Rotation.identity()), (4.5, turn)]
    stamps = [T0 - 40 * MS, T0]
    for ns, (x, turned) in zip(stamps, arm):
        fusion.move(transform(ns, "base_link", "forearm", [x, 0.5, 0.5], turned))
    # In the frame of the lidar, which is 1 m above the base: along x, beside it, and above.
    points = np.array(
        [[x + 0.5, y + 0.5, z - 0.5] for x in range(8) for y in (0, 2) for z in (0, 1)]
    )
    fields = [PointField(name=n, offset=4 * i, datatype=7, count=1) for i, n in enumerate("xyz")]
    for ns, weight in ((T0 - 40 * MS, 0.0), (T0 - 10 * MS, 0.75), (T0, 1.0)):
        message = stamped(PointCloud2, ns, height=1, width=len(points), fields=fields)
        message.point_step, message.row_step = 12, 12 * len(points)
        message.data = points.astype("<f4").tobytes()
        fusion.send("/cloud", message)
        # By scipy: where the arm was, and which points it hides.
        base = points + [0, 0, 1]
        forearm = Slerp([0, 1], Rotation.concatenate([arm[0][1], arm[1][1]]))(weight)
        inside = forearm.inv().apply(base - [0.5 + 4 * weight, 0.5, 0.5])
        hidden = np.linalg.norm(inside - [0, 0, 1], axis=1) <= 0.6
        hidden |= (np.abs(inside - [0, 1, 0]) <= 0.5).all(axis=1)
        place = Rotation.from_euler("z", 0.1).apply(base) + [100, 0, 0]
        kept = (place[:, 0] <= 106) & (place[:, 0] >= 100) & ~hidden
        expected = np.zeros((2, 8, 8))
        for x, y, z in base[kept].astype(int):
            expected[z, y, x] += 1
        got = fusion.tick(ns + 10 * MS)["cloud"]
        assert got.valid == [True] and 0 < kept.sum() < len(points) - 1
        np.testing.assert_array_equal(got.array[0, 0], expected, f"{weight}")

    late = cloud(T0 + 5 * MS, "lidar", [0.5, 0.5, 0.5])
    assert fusion.send("/cloud", late).reason == "waits"
    fusion.tick(T0 + 300 * MS)
    assert fusion.value("cloud", "dropped.no_transform") == 1


def test_selected_members_are_taken_to_another_frame():
    selected = {
        "type": "geometry_msgs/msg/PoseStamped",
        "topic": "/pose",
        "select": ["pose.orientation", "pose.position"],
        "strategy": "slerp",
        "in_frame": "map",
        "max_age_ms": 1000,
    }
    both = streams(typed=STREAMS["pose"] | {"topic": "/pose"}, selected=selected)
    fusion = InProcess({"streams": both})
    fusion.advance(T0)
    turn = Rotation.from_euler("xyz", [0.3, -0.4, 1.5])
    fusion.fix(transform(T0, "map", "arm", [1, 2, 3], turn))
    fusion.send("/pose", pose(T0, "arm", 0.5))
    got = fusion.tick(T0 + 10 * MS)
    np.testing.assert_allclose(
        got["selected"].array[0],
        [*turn.as_quat(), *(turn.apply([0.5, 0, 0]) + [1, 2, 3])],
        atol=1e-6,
    )
    typed = got["typed"].array[0]
    np.testing.assert_array_equal(got["selected"].array[0], [*typed[3:], *typed[:3]])
