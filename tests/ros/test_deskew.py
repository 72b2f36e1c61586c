"""A lidar on a robot that drives and turns: with tf, each point is where it was at the stamp.

With a gyro alone, that holds for a robot that turns about its IMU.
"""

import numpy as np
from fusion import MS, T0, stamped, streams
from in_process import InProcess
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import Imu, PointCloud2, PointField
from test_frames import transform

SWEEP_MS = 100
SPEED, RATE = np.array([2.0, 0.5, 0.0]), 1.5  # m/s along x and y of odom, rad/s about z
MOUNT_SHIFT, MOUNT_TURN = np.array([0.3, -0.1, 0.5]), Rotation.from_euler("xyz", [0.05, -0.1, 1.4])
SIZE = 24
STREAMS = streams(
    lidar={
        "type": "sensor_msgs/msg/PointCloud2",
        "max_age_ms": 1000,
        "t_base_sensor": "tf",
        "deskew": {"fixed_frame": "odom", "sensor": "ouster"},
        "cloud": {
            "origin_m": [-SIZE / 2, -SIZE / 2, 0],
            "size_m": 1,
            "shape": [SIZE, SIZE, 4],
            "channels": [{"reduce": "mean", "field": axis} for axis in "xyz"],
        },
    }
)
CONFIG = {"tf": {"wait_ms": 100}, "streams": STREAMS}


def base_at(seconds):
    """Where the robot is in odom: its turn and its place."""
    return Rotation.from_euler("z", RATE * seconds), SPEED * seconds


def to_lidar(points, seconds):
    """Points of odom as the lidar has them, one instant each."""
    seen = []
    for point, at in zip(points, seconds):
        turn, place = base_at(at)
        in_base = turn.inv().apply(point - place)
        seen.append(MOUNT_TURN.inv().apply(in_base - MOUNT_SHIFT))
    return np.array(seen)


def cloud(ns, seen, nanoseconds, time="t"):
    kinds = {"names": [*"xyz", time], "formats": ["<f4"] * 3 + ["<u4"]}
    table = np.zeros(len(seen), np.dtype(kinds))
    for axis, values in zip("xyz", seen.T):
        table[axis] = values
    table[time] = nanoseconds
    fields = [PointField(name=n, offset=4 * i, datatype=7, count=1) for i, n in enumerate("xyz")]
    fields.append(PointField(name=time, offset=12, datatype=6, count=1))
    size = {"height": 1, "width": len(seen), "point_step": 16, "row_step": 16 * len(seen)}
    message = stamped(PointCloud2, ns, fields=fields, data=table.tobytes(), is_dense=True, **size)
    message.header.frame_id = "lidar"
    return message


def drive(fusion, from_ms, to_ms):
    """The robot's poses, as a localisation of 200 Hz sends them."""
    moves = []
    for ms in range(from_ms, to_ms + 1, 5):
        turn, place = base_at(ms / 1000)
        moves.append(transform(T0 + ms * MS, "odom", "base_link", place, turn))
    fusion.move(*moves)


def test_points_are_where_they_were_at_the_stamp():
    fusion = InProcess(CONFIG)
    fusion.advance(T0)
    fusion.fix(transform(T0, "base_link", "lidar", MOUNT_SHIFT, MOUNT_TURN))
    random = np.random.default_rng(8)
    # At the stamp odom and the base are the same. One point in the middle of each voxel.
    voxels = random.choice(SIZE * SIZE * 4, 300, replace=False)
    z, y, x = np.unravel_index(voxels, (4, SIZE, SIZE))
    truth = np.stack([x, y, z], -1) + [0.5 - SIZE / 2, 0.5 - SIZE / 2, 0.5]
    truth += random.uniform(-0.2, 0.2, truth.shape)
    nanoseconds = random.integers(0, SWEEP_MS * MS, len(truth))
    seen = to_lidar(truth, nanoseconds / 1e9)
    skew = MOUNT_TURN.apply(seen) + MOUNT_SHIFT - truth
    assert np.linalg.norm(skew, axis=1).max() > 1, "without deskew the test would fail"

    drive(fusion, -20, 60)
    assert fusion.send("/lidar", cloud(T0, seen, nanoseconds)).reason == "waits"
    drive(fusion, 65, 120)
    got = fusion.tick(T0 + 100 * MS)["lidar"]
    assert got.valid == [True]
    found = got.array[0][:, z, y, x].T
    np.testing.assert_allclose(found, truth, atol=1e-4)
    assert np.count_nonzero(got.array[0].any(axis=0)) == len(truth)

    # Without the times of its points, or without the motion of its sweep, a cloud is dropped.
    timeless = cloud(T0 + MS, seen, nanoseconds, time="when")
    fusion.check_drops("/lidar", [(timeless, "missing_field")])
    assert fusion.send("/lidar", cloud(T0 + 80 * MS, seen, nanoseconds)).reason == "waits"
    fusion.tick(T0 + 400 * MS)
    assert fusion.value("lidar", "dropped.no_transform") == 1
    assert fusion.value("lidar", "rows") == 1


#: Where the IMU is on the robot.
IMU_SHIFT, IMU_TURN = np.array([-0.1, 0.2, 0.3]), Rotation.from_euler("xyz", [0.4, 0.2, -2.0])


def imu(ns, rate):
    message = stamped(Imu, ns)
    message.header.frame_id = "imu"
    message.orientation_covariance[0] = -1.0  # a gyro alone has no orientation
    velocity = message.angular_velocity
    velocity.x, velocity.y, velocity.z = map(float, rate)
    return message


def test_a_gyro_alone_turns_points_about_the_imu():
    lidar = {**STREAMS["lidar"], "deskew": {"gyro": "/imu", "sensor": "ouster"}}
    fusion = InProcess({"tf": {"wait_ms": 100}, "streams": {"lidar": lidar}})
    fusion.advance(T0)
    fusion.fix(
        transform(T0, "base_link", "lidar", MOUNT_SHIFT, MOUNT_TURN),
        transform(T0, "base_link", "imu", IMU_SHIFT, IMU_TURN),
    )

    # The attitude of the IMU, smooth and about no fixed axis, and the rate that scipy finds for it.
    def attitude(seconds):
        t = np.asarray(seconds, float)
        angles = np.stack([0.15 * np.sin(6 * t), 0.1 * np.cos(5 * t), 1.2 * t + t * t], -1)
        return Rotation.from_euler("xyz", angles)

    def rate(seconds, h=1e-6):
        return (attitude(seconds - h).inv() * attitude(seconds + h)).as_rotvec() / (2 * h)

    random = np.random.default_rng(15)
    voxels = random.choice(SIZE * SIZE * 4, 300, replace=False)
    z, y, x = np.unravel_index(voxels, (4, SIZE, SIZE))
    truth = np.stack([x, y, z], -1) + [0.5 - SIZE / 2, 0.5 - SIZE / 2, 0.5]
    nanoseconds = random.integers(0, SWEEP_MS * MS, len(truth))
    of_imu = IMU_TURN.inv().apply(truth - IMU_SHIFT)
    turned = attitude(nanoseconds / 1e9).inv() * attitude(0.0)
    in_base = IMU_TURN.apply(turned.apply(of_imu)) + IMU_SHIFT
    seen = MOUNT_TURN.inv().apply(in_base - MOUNT_SHIFT)
    assert np.linalg.norm(in_base - truth, axis=1).max() > 1, "without deskew the test would fail"

    assert fusion.send("/lidar", cloud(T0, seen, nanoseconds)).reason == "waits"
    for ms in range(-10, 121, 5):
        assert fusion.send("/imu", imu(T0 + ms * MS, rate(ms / 1000)))
    got = fusion.tick(T0 + 100 * MS)["lidar"]
    found = got.array[0][:, z, y, x].T
    np.testing.assert_allclose(found, truth, atol=1e-3)

    # Bad messages of the gyro are dropped and counted.
    bad = [
        (imu(T0 + 125 * MS, [0.0, float("inf"), 0.0]), "non_finite"),
        (imu(T0 + 60 * MS, rate(0.06)), "late"),
        (b"\x00\x01\x00\x00" + bytes(60), "malformed"),
    ]
    fusion.check_drops("/imu", bad)
