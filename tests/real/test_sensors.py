"""Published data of sensors: lidars, cameras, a robot in simulation, a motion capture."""

import struct

import numpy as np
import pytest

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache

#: Of a field of a PCD file, by its type and size.
TYPES = {"F4": "<f4", "U1": "u1", "U2": "<u2", "U4": "<u4"}


def points_of(path):
    """The points x, y, z of a binary PCD file."""
    data = path.read_bytes()
    head, _, body = data.partition(b"DATA binary\n")
    lines = dict(line.split(" ", 1) for line in head.decode().splitlines() if " " in line)
    types = [
        kind + size for kind, size in zip(lines["TYPE"].split(), lines["SIZE"].split(), strict=True)
    ]
    dtype = np.dtype(
        [(name, TYPES[of]) for name, of in zip(lines["FIELDS"].split(), types, strict=True)]
    )
    found = np.frombuffer(body, dtype, int(lines["POINTS"]))
    return np.stack([found[name] for name in "xyz"], axis=1)


@pytest.mark.parametrize("lidar", ["at128", "qt64", "xt32m", "vlp16"])
def test_clouds_have_the_voxels_of_numpy(real, lidar):
    points = points_of(real(f"lidar/{lidar}.pcd"))
    origin, size, shape = (-64.0, -64.0, -8.0), 0.5, (256, 256, 64)
    found = robocache.voxelize(
        points, origin_m=origin, size_m=size, shape=shape, channels=("count",)
    )
    finite = points[np.isfinite(points).all(axis=1)]
    # A division by a power of two is exact, so both have the same border of a voxel.
    places = np.floor((finite - np.float32(origin)) / np.float32(size)).astype(np.int64)
    inside = places[((places >= 0) & (places < shape)).all(axis=1)]
    expected = np.zeros(shape, np.float32)
    np.add.at(expected, tuple(inside.T), 1)
    assert len(inside) > 1_000
    assert np.array_equal(found.values[0], expected.transpose(2, 1, 0))


def compressed(stamp_ns, data):
    """A CompressedImage in CDR."""
    head = b"\0\1\0\0" + struct.pack("<iI", *divmod(stamp_ns, 10**9)) + struct.pack("<I", 1) + b"\0"
    body = bytearray(head)
    body += bytes(-(len(body) - 4) % 4) + struct.pack("<I", 5) + b"jpeg\0"
    body += bytes(-(len(body) - 4) % 4) + struct.pack("<I", len(data)) + data
    return bytes(body)


def test_cameras_have_the_pixels_of_pillow(real):
    Image = pytest.importorskip("PIL.Image")
    config = {
        "rate_hz": 10,
        "lag_ms": 0,
        "streams": {
            "camera": {
                "type": "sensor_msgs/CompressedImage",
                "topic": "/camera",
                "max_age_ms": 50,
                "dtype": "u8",
                "image": {"resize": {"height": 900, "width": 1600, "fit": "stretch"}},
            }
        },
    }
    pictures = sorted(real("nuscenes").glob("*.jpg"))
    assert len(pictures) == 6
    for path in pictures:
        pipeline = robocache.Pipeline(config, backend="cpu")
        stamp_ns = 1_000_000_000
        pipeline.push("camera", compressed(stamp_ns, path.read_bytes()), stamp_ns)
        tensor = pipeline.tick_at(stamp_ns)
        found = np.asarray(tensor["camera"].array)[0]
        found = found if found.shape[-1] == 3 else found.transpose(1, 2, 0)
        assert np.array_equal(found, np.asarray(Image.open(path).convert("RGB"))), path.name


def test_a_motion_capture_turns_as_scipy_says(real):
    """Every tenth row is kept; those between are compared with SciPy's spherical interpolation of the kept ones."""
    spatial = pytest.importorskip("scipy.spatial.transform")
    table = np.loadtxt(real("euroc/V102_groundtruth.csv"), delimiter=",", comments="#")
    stamps = np.array(
        [
            int(line.split(",")[0])
            for line in real("euroc/V102_groundtruth.csv").read_text().splitlines()[1:]
        ]
    )
    stamps = stamps[stamps > 0]
    assert len(stamps) == len(table)
    quaternions = table[:, [5, 6, 7, 4]].astype(np.float32)  # x, y, z, w
    kept, between = slice(0, None, 10), slice(0, (len(table) - 1) // 10 * 10)
    found = robocache.resample(
        quaternions[kept], stamps[kept], stamps[between], strategy="slerp", lanes=["quaternion"] * 4
    )
    assert found.valid.all()
    begin = stamps[0]
    turns = spatial.Rotation.from_quat(quaternions[kept].astype(np.float64))
    expected = spatial.Slerp((stamps[kept] - begin) / 1e9, turns)((stamps[between] - begin) / 1e9)
    apart = (spatial.Rotation.from_quat(found.values) * expected.inv()).magnitude()
    assert apart.max() < 2e-6


def test_a_robot_in_simulation_has_the_poses_of_its_bag(real, tmp_path):
    reader = pytest.importorskip("mcap.reader")
    factory = pytest.importorskip("mcap_ros2.decoder").DecoderFactory()
    bag = real("nav2/nav2_turtlebot.mcap")
    config = tmp_path / "robot.yaml"
    config.write_text(
        "rate_hz: 20\nstreams:\n  odom: {type: nav_msgs/Odometry, topic: /odom, fields: [position], "
        "strategy: linear, max_age_ms: 200, dtype: f32}\n"
    )
    (outcome,) = robocache.replay_to([bag], config, tmp_path / "out", format="rows", jobs=1)
    assert "done" in outcome, outcome
    with bag.open("rb") as file:
        decoded = reader.make_reader(file, decoder_factories=[factory])
        messages = [of for _, _, _, of in decoded.iter_decoded_messages(topics=["/odom"])]
    cache = robocache.EpisodeCache.load(tmp_path / "out/rows.zarr")
    stamps = [m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in messages]
    chosen = [at for at in range(1, len(stamps)) if stamps[at] > stamps[at - 1]]
    assert len(chosen) > 2_000
    windows = cache.windows(
        [0] * len(chosen), [stamps[at] for at in chosen], {"odom": {"lag_ms": 0}}, rows="all"
    )
    places = [[getattr(messages[at].pose.pose.position, axis) for axis in "xyz"] for at in chosen]
    assert windows["odom"].valid.all()
    assert np.array_equal(windows["odom"].float32()[:, 0], np.array(places, np.float32))
