"""Every message type as odd drivers send it, and the tensor that it becomes, value by value."""

import numpy as np
import pytest
from fusion import MS, T0, segments, stamped, start_fusion, wrench
from geometry_msgs.msg import PoseStamped, TwistStamped
from nav_msgs.msg import Odometry
from PIL import Image as Pillow
from sensor_msgs.msg import Image, Imu, JointState, PointCloud2, PointField

JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "fields": ["velocity", "position", "effort"],
    "joints": ["hip", "knee", "ankle"],
}


def streams(**given):
    """Streams on a topic of their own name, reliable, the newest message held."""
    common = {"max_age_ms": 50, "strategy": "hold", "qos": {"reliability": "reliable"}}
    return {name: {"topic": f"/{name}", **common, **spec} for name, spec in given.items()}


def set_xyz(target, values):
    target.x, target.y, target.z = map(float, values)


def set_xyzw(target, values):
    target.x, target.y, target.z, target.w = map(float, values)


def f32(values):
    return np.array(values, np.float32)


# ---- vectors ------------------------------------------------------------------------------------


def imu(ns, orientation, angular, linear):
    message = stamped(Imu, ns)
    set_xyzw(message.orientation, orientation)
    set_xyz(message.angular_velocity, angular)
    set_xyz(message.linear_acceleration, linear)
    # Covariances stand between the fields; they must be stepped over, not read.
    message.orientation_covariance[:] = np.arange(9) + 100.0
    message.angular_velocity_covariance[:] = np.arange(9) + 200.0
    return message


def pose(ns, position, orientation):
    message = stamped(PoseStamped, ns)
    set_xyz(message.pose.position, position)
    set_xyzw(message.pose.orientation, orientation)
    return message


def odometry(ns, position, orientation, linear, angular):
    message = stamped(Odometry, ns, child_frame_id="some_link")
    set_xyz(message.pose.pose.position, position)
    set_xyzw(message.pose.pose.orientation, orientation)
    set_xyz(message.twist.twist.linear, linear)
    set_xyz(message.twist.twist.angular, angular)
    message.pose.covariance[:] = np.arange(36) + 100.0
    message.twist.covariance[:] = np.arange(36) + 200.0
    return message


def joint_state(ns, names, position=(), velocity=(), effort=()):
    return stamped(
        JointState,
        ns,
        name=list(names),
        position=[float(v) for v in position],
        velocity=[float(v) for v in velocity],
        effort=[float(v) for v in effort],
    )


VECTORS = streams(
    joints=JOINTS,
    wrench={"type": "geometry_msgs/msg/WrenchStamped"},
    wrench_f16={"type": "geometry_msgs/msg/WrenchStamped", "topic": "/wrench", "dtype": "f16"},
    wrench_bf16={"type": "geometry_msgs/msg/WrenchStamped", "topic": "/wrench", "dtype": "bf16"},
    imu={"type": "sensor_msgs/msg/Imu"},
    imu_part={
        "type": "sensor_msgs/msg/Imu",
        "topic": "/imu",
        "fields": ["linear_acceleration", "orientation"],
    },
    pose={"type": "geometry_msgs/msg/PoseStamped"},
    twist={"type": "geometry_msgs/msg/TwistStamped"},
    odom={"type": "nav_msgs/msg/Odometry"},
)


def bf16(values):
    """Rounded to the upper half of a float32, ties to even."""
    bits = f32(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def test_vectors_arrive_value_by_value(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": VECTORS}).warm_up()
    force, torque = (1.1, -2.2, 3.3e-5), (100.7, 0.0, -1 / 3)
    message = wrench(T0, *force)
    set_xyz(message.wrench.torque, torque)
    fusion.send("/wrench", message)
    turn = (0.5, -0.5, 0.5, 0.5)
    fusion.send("/imu", imu(T0, turn, (0.1, 0.2, 0.3), (9.81, -0.4, 1e-3)))
    long = np.array([0.1, 0.2, 0.3, 0.94])  # not quite unit, as drivers send them
    fusion.send("/pose", pose(T0, (1.5, 2.7, -1e6), long))
    message = stamped(TwistStamped, T0)
    set_xyz(message.twist.linear, (0.7, 0.8, 0.9))
    set_xyz(message.twist.angular, (-0.7, -0.8, -0.9))
    fusion.send("/twist", message)
    fusion.send("/odom", odometry(T0, (10.1, 11.1, 12.1), turn, (1, 2, 3), (4, 5, 6)))
    # Joints in another order, with two that nobody asked for.
    names = ["finger", "ankle", "hip", "tail", "knee"]
    position, velocity = [9, 0.3, 0.1, 9, 0.2], [9, 1.3, 1.1, 9, 1.2]
    fusion.send("/joints", joint_state(T0, names, position, velocity, [9, 2.3, 2.1, 9, 2.2]))

    got = fusion.tick(T0 + 10 * MS)
    expected = {
        "joints": f32([1.1, 1.2, 1.3, 0.1, 0.2, 0.3, 2.1, 2.2, 2.3]),
        "wrench": f32(force + torque),
        "wrench_f16": f32(force + torque).astype(np.float16),
        "wrench_bf16": bf16(force + torque),
        "imu": f32([*turn, 0.1, 0.2, 0.3, 9.81, -0.4, 1e-3]),
        "imu_part": f32([9.81, -0.4, 1e-3, *turn]),
        "twist": f32([0.7, 0.8, 0.9, -0.7, -0.8, -0.9]),
        "odom": f32([10.1, 11.1, 12.1, *turn, 1, 2, 3, 4, 5, 6]),
    }
    for name, row in expected.items():
        np.testing.assert_array_equal(got[name].array, row[None], err_msg=name)
        assert got[name].array.dtype == row.dtype, name
    unit = long / np.linalg.norm(long)
    np.testing.assert_allclose(got["pose"].array[0], [1.5, 2.7, -1e6, *unit], rtol=1e-7)
    for name, segment in got.items():
        assert (segment.valid, segment.age_ns) == ([True], [10 * MS]), name
    assert list(got) == list(VECTORS), "segments stand in the order of the configuration"
    assert fusion.tensors[fusion.tick_of(T0 + 10 * MS)].header.frame_id == "base_link"

    # The order of the joints may change from one message to the next.
    message = joint_state(T0 + 11 * MS, ["knee", "ankle", "hip"], [2, 3, 1], [5, 6, 4], [8, 9, 7])
    fusion.send("/joints", message)
    got = fusion.tick(T0 + 20 * MS)["joints"]
    np.testing.assert_array_equal(got.array, f32([[4, 5, 6, 1, 2, 3, 7, 8, 9]]))


# ---- images -------------------------------------------------------------------------------------

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
WIDTH, HEIGHT = 24, 16
SIZE = {"width": WIDTH, "height": HEIGHT}
IMAGES = streams(
    padded={
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "image": {**SIZE, "mean": MEAN, "std": STD, "pad_value": 114},
    },
    stretched={
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "image": {**SIZE, "fit": "stretch", "color": "bgr"},
    },
    cropped={
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "dtype": "f16",
        "image": {**SIZE, "fit": "crop", "color": "mono", "mean": [0.5], "std": [0.25]},
    },
)
#: Channels of an RGBA picture that an encoding carries, in its order.
ENCODINGS = {"rgb8": "RGB", "bgr8": "BGR", "rgba8": "RGBA", "bgra8": "BGRA", "mono8": "L"}


def image_message(ns, picture, encoding, padding, seed=0):
    """A picture (Pillow, RGB or L) as a message with garbage behind every line and alpha."""
    random = np.random.default_rng(seed)
    if encoding == "mono8":
        pixels = np.asarray(picture)[..., None]
    else:
        rgba = np.dstack([np.asarray(picture), random.integers(0, 256, picture.size[::-1])])
        pixels = rgba[..., ["RGBA".index(c) for c in ENCODINGS[encoding]]]
    lines = pixels.astype(np.uint8).reshape(picture.height, -1)
    garbage = random.integers(0, 256, (picture.height, padding), np.uint8)
    data = np.hstack([lines, garbage])
    return stamped(
        Image,
        ns,
        width=picture.width,
        height=picture.height,
        encoding=encoding,
        is_bigendian=1,  # says nothing about bytes
        step=data.shape[1],
        data=data.tobytes(),
    )


def channels(picture):
    """Pixels of a picture as [3 or 1, height, width]."""
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def normalised(pixels, mean, std):
    scaled = pixels.astype(np.float32) / np.float32(255)
    return (scaled - f32(mean)[:, None, None]) / f32(std)[:, None, None]


def expected_images(picture):
    """What Pillow makes of a picture for the three streams."""
    resize = Pillow.Resampling.BILINEAR
    width, height = picture.size
    if width * HEIGHT >= height * WIDTH:
        inner = (WIDTH, max(1, height * WIDTH // width))
        part = max(1, height * WIDTH // HEIGHT)
        box = ((width - part) // 2, 0, (width - part) // 2 + part, height)
    else:
        inner = (max(1, width * HEIGHT // height), HEIGHT)
        part = max(1, width * HEIGHT // WIDTH)
        box = (0, (height - part) // 2, width, (height - part) // 2 + part)
    padded = np.full((3, HEIGHT, WIDTH), 114, np.uint8)
    left, top = (WIDTH - inner[0]) // 2, (HEIGHT - inner[1]) // 2
    padded[:, top : top + inner[1], left : left + inner[0]] = channels(
        picture.resize(inner, resize)
    )
    stretched = channels(picture.resize((WIDTH, HEIGHT), resize))
    stretched = np.broadcast_to(stretched, (3, HEIGHT, WIDTH))[::-1]
    cropped = channels(picture.convert("L").resize((WIDTH, HEIGHT), resize, box=box))
    return {
        "padded": normalised(padded, MEAN, STD),
        "stretched": normalised(stretched, [0, 0, 0], [1, 1, 1]),
        "cropped": normalised(cropped, [0.5], [0.25]).astype(np.float16),
    }


def test_images_of_all_encodings_equal_pillows(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": IMAGES}).warm_up()
    random = np.random.default_rng(7)
    for tick, encoding in enumerate(ENCODINGS):
        # Wide and high ones, none of them a multiple of the row's sides.
        width, height = [(61, 37), (31, 53)][tick % 2]
        pixels = random.integers(0, 256, (height, width, 3), np.uint8)
        picture = Pillow.fromarray(pixels)
        if encoding == "mono8":
            picture = picture.convert("L")
        now = T0 + 10 * tick * MS
        fusion.send("/camera", image_message(now, picture, encoding, padding=3 + tick))
        got = fusion.tick(now)
        for name, row in expected_images(picture).items():
            assert got[name].valid == [True], (encoding, name)
            np.testing.assert_array_equal(got[name].array[0], row, err_msg=f"{encoding} {name}")


# ---- clouds -------------------------------------------------------------------------------------

ORIGIN, VOXEL, SHAPE = (-1.0, -2.0, 0.0), 0.5, (6, 8, 4)
#: A quarter turn about z, then a shift.
TURN, SHIFT = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), np.array([0.5, -0.25, 1.0])
CLOUD = streams(
    cloud={
        "type": "sensor_msgs/msg/PointCloud2",
        "cloud": {
            "t_base_lidar": {"translation_m": SHIFT.tolist(), "rotation_rpy_deg": [0, 0, 90]},
            "origin_m": list(ORIGIN),
            "size_m": VOXEL,
            "shape": list(SHAPE),
            "channels": [
                {"reduce": "count"},
                {"reduce": "occupancy"},
                {"reduce": "mean", "field": "intensity"},
                {"reduce": "max", "field": "intensity"},
                {"reduce": "mean", "field": "z"},
                {"reduce": "max", "field": "ring"},
            ],
        },
    }
)
#: NumPy's type, code of sensor_msgs/PointField.
FIELD_TYPES = {"u1": 2, "i2": 3, "u2": 4, "f4": 7, "f8": 8}


def cloud_message(ns, points, layout, big_endian, height=1, point_step=None, row_padding=0):
    """Points by field name as a cloud; layout: (name, type, offset) in the order declared."""
    order = ">" if big_endian else "<"
    point_step = point_step or max(at + np.dtype(kind).itemsize for _, kind, at in layout)
    count = len(points["x"])
    width = count // height
    dtype = np.dtype(
        {
            "names": [name for name, _, _ in layout],
            "formats": [order + kind for _, kind, _ in layout],
            "offsets": [at for _, _, at in layout],
            "itemsize": point_step,
        }
    )
    data = np.frombuffer(np.random.default_rng(1).bytes(count * point_step), np.uint8).copy()
    table = data.view(dtype)
    for name, _, _ in layout:
        table[name] = points[name]
    rows = data.reshape(height, width * point_step)
    garbage = np.full((height, row_padding), 0x7F, np.uint8)
    data = np.hstack([rows, garbage])
    fields = [
        # PCL leaves the count of a plain field at 0
        PointField(name=name, offset=at, datatype=FIELD_TYPES[kind], count=0 if name == "z" else 1)
        for name, kind, at in layout
    ]
    return stamped(
        PointCloud2,
        ns,
        height=height,
        width=width,
        fields=fields,
        is_bigendian=big_endian,
        point_step=point_step,
        row_step=data.shape[1],
        data=data.tobytes(),
        is_dense=True,  # a lie, as often
    )


def expected_grid(points):
    """The voxel grid by the plainest means, and how many points are non-finite and outside."""
    grid = np.zeros((6, SHAPE[2], SHAPE[1], SHAPE[0]))
    voxels, non_finite, outside = {}, 0, 0
    for i in range(len(points["x"])):
        raw = [float(points[name][i]) for name in ("x", "y", "z", "intensity", "ring")]
        if not np.all(np.isfinite(raw)):
            non_finite += 1
            continue
        place = TURN @ raw[:3] + SHIFT
        voxel = np.floor((place - ORIGIN) / VOXEL).astype(int)
        if np.any(voxel < 0) or np.any(voxel >= SHAPE):
            outside += 1
            continue
        voxels.setdefault(tuple(voxel), []).append((raw[3], place[2], raw[4]))
    for (x, y, z), inside in voxels.items():
        intensity, height, ring = zip(*inside)
        mean = [np.mean(intensity), max(intensity), np.mean(height), max(ring)]
        grid[:, z, y, x] = [len(inside), 1, *mean]
    return grid, non_finite, outside


LAYOUTS = [
    # as PCL has it
    dict(
        layout=[
            ("x", "f4", 0),
            ("y", "f4", 4),
            ("z", "f4", 8),
            ("intensity", "f4", 16),
            ("ring", "u2", 20),
        ],
        big_endian=False,
        point_step=32,
    ),
    # everything odd: order, types, offsets, size of a point, byte order, rows with padding
    dict(
        layout=[
            ("ring", "u1", 0),
            ("z", "f8", 19),
            ("time", "f8", 1),
            ("intensity", "i2", 9),
            ("x", "f4", 11),
            ("y", "f4", 15),
        ],
        big_endian=True,
        point_step=31,
        height=8,
        row_padding=5,
    ),
    dict(
        layout=[
            ("y", "f8", 3),
            ("ring", "i2", 1),
            ("x", "f8", 11),
            ("intensity", "f8", 19),
            ("z", "f4", 27),
        ],
        big_endian=True,
        point_step=33,
        height=4,
        row_padding=1,
    ),
]


def random_points(seed, count=1200):
    """Points on a grid of 1/32 m, off the voxels' faces; some NaN, infinite, or far away."""
    random = np.random.default_rng(seed)

    def coordinate(low, high):
        return (random.integers(low * 32, high * 32, count) + 0.5) / 32

    points = {
        "x": coordinate(-2, 4),
        "y": coordinate(-3, 4),
        "z": coordinate(-2, 2),
        "intensity": random.integers(-3000, 3000, count).astype(float),
        "ring": random.integers(0, 128, count),
        "time": random.random(count),
    }
    points["x"][::17], points["y"][::41], points["z"][::29] = np.nan, np.inf, -np.inf
    return points


def test_clouds_of_odd_layouts_become_the_same_grid(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": CLOUD}).warm_up()
    non_finite = outside = 0
    for tick, layout in enumerate(LAYOUTS):
        points = random_points(tick)
        grid, *dropped = expected_grid(points)
        assert np.count_nonzero(grid[0]) > 50 and min(dropped) > 20, "the test has enough to see"
        non_finite, outside = non_finite + dropped[0], outside + dropped[1]
        now = T0 + 10 * tick * MS
        fusion.send("/cloud", cloud_message(now, points, **layout))
        got = fusion.tick(now)["cloud"]
        assert got.valid == [True]
        for channel in (0, 1, 3, 5):
            np.testing.assert_array_equal(got.array[0, channel], grid[channel], f"{tick} {channel}")
        for channel in (2, 4):
            np.testing.assert_allclose(got.array[0, channel], grid[channel], 1e-6, 1e-6)
    fusion.await_value("cloud", "points_non_finite", non_finite)
    fusion.await_value("cloud", "points_outside", outside)
    # An empty cloud is a cloud: the grid becomes empty.
    empty = cloud_message(T0 + 35 * MS, {k: v[:0] for k, v in points.items()}, **LAYOUTS[0])
    fusion.send("/cloud", empty)
    got = fusion.tick(T0 + 40 * MS)["cloud"]
    assert got.valid == [True] and not got.array.any()


@pytest.mark.parametrize("name", ["valid", "age_ns"])
def test_the_tests_own_reader_notices_a_wrong_message(ros, start, tmp_path, name):
    """The decoder above is the oracle: what it claims to check, it checks."""
    config = {"streams": {"wrench": {**VECTORS["twist"], "topic": "/w"}}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    (message,) = list(fusion.tensors.values())[:1]
    setattr(message.segments[0], name, [])
    with pytest.raises(AssertionError):
        segments(message)
