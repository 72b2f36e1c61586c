"""Messages of a robot with the same bytes on every processor, and a configuration with every kind of encoder.

Numbers come from whole random numbers by exact operations. NumPy's `uniform`, `normal` and `sin` may differ in the
last bit between processors, and so may files that Pillow writes.
"""

import math
from pathlib import Path

import numpy as np
from bags import MS, T0, empty, header, image, joints, made, transforms, unorganized, vector, wrench

COMPRESSED = Path(__file__).resolve().parents[1] / "golden" / "compressed"
#: Files that are decoded in turn.
PICTURES = ["420.jpg", "422.jpg", "444.jpg", "440.jpg", "411.jpg", "progressive.jpg", "gray.jpg"]
FILTERS = [
    "pil_bilinear",
    "pil13_bilinear",
    "torch_bilinear",
    "torch_bilinear_antialias",
    "cv2_linear",
    "cv2_area",
    "nearest",
]
MEAN_STD = "mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]"
SECONDS = 1.5


def numbers(random, shape, limit=1.0, dtype=np.float64):
    """Numbers from -limit to limit, a power of two."""
    return (random.integers(-(2**20), 2**20, shape) * (limit / 2**20)).astype(dtype)


def rotation(random):
    """A quaternion of length 1 as x, y, z, w."""
    parts = [float(value) for value in numbers(random, 4)]
    parts[3] += 1.5
    length = math.sqrt(sum(value * value for value in parts))
    return [value / length for value in parts]


def messages(seed=5):
    """(topic, receive stamp, message), in the order of the stamps."""
    random = np.random.default_rng(seed)
    found = [("/tf_static", T0 - 10 * MS, transforms((T0 - 10 * MS, "base_link", "lidar", 0.25)))]

    def publish(topic, rate_hz, make):
        period = 10**9 // rate_hz
        for number in range(int(SECONDS * rate_hz)):
            ns = T0 + number * period + int(random.integers(0, MS))
            received = ns + int(random.integers(MS, 6 * MS))
            found.append((topic, received, make(ns, number)))

    def of_robot(kind, ns, frame, **fields):
        return empty(kind, header=header(ns, frame), **fields)

    def point(kind="Vector3", limit=4.0):
        return vector(kind, *numbers(random, 3, limit))

    def pose():
        turn = vector("Quaternion", *rotation(random))
        return made("geometry_msgs/msg/Pose", position=point("Point"), orientation=turn)

    def imu(ns, _):
        turn = vector("Quaternion", *rotation(random))
        rates = {"angular_velocity": point(limit=1.0), "linear_acceleration": point(limit=16.0)}
        return of_robot("sensor_msgs/msg/Imu", ns, "lidar", orientation=turn, **rates)

    def pixels(_):
        y, x = np.mgrid[0:61, 0:83]
        smooth = np.stack([3 * x, 4 * y, 2 * x + y], axis=-1)
        return ((smooth + random.integers(0, 40, smooth.shape)) % 256).astype(np.uint8)

    def picture(ns, number):
        data = np.fromfile(COMPRESSED / PICTURES[number % len(PICTURES)], np.uint8)
        kind = "sensor_msgs/msg/CompressedImage"
        return made(kind, header=header(ns, "optical"), format="jpeg", data=data)

    def depth(ns, _):
        data = random.integers(300, 9000, (48, 64)).astype("<u2").reshape(-1).view(np.uint8)
        size = {"height": 48, "width": 64, "step": 128, "encoding": "16UC1"}
        return of_robot("sensor_msgs/msg/Image", ns, "optical", data=data, **size)

    def cloud(ns, _):
        count = 700
        names = ["x", "y", "z", "intensity", "t"]
        table = np.zeros(count, np.dtype([(name, "<f4") for name in names[:4]] + [("t", "<u4")]))
        for name, limit in zip(names[:4], (8.0, 8.0, 2.0, 256.0)):
            table[name] = numbers(random, count, limit)
        table["x"][::50] = np.nan
        table["t"] = np.arange(count) * (90 * MS // count)
        kind = "sensor_msgs/msg/PointField"
        fields = [
            made(kind, name=name, offset=4 * at, datatype=6 if name == "t" else 7, count=1)
            for at, name in enumerate(names)
        ]
        return unorganized(header(ns, "lidar"), fields, table)

    def scan(ns, _):
        angles = {"angle_min": -1.5, "angle_max": 1.5, "angle_increment": 0.01}
        limits = {"range_min": 0.125, "range_max": 30.0, "time_increment": 1e-4}
        ranges = 4 + numbers(random, 300, 4.0, np.float32)
        return of_robot("sensor_msgs/msg/LaserScan", ns, "lidar", ranges=ranges, **angles, **limits)

    def occupancy(ns, _):
        place = made(
            "geometry_msgs/msg/Pose",
            position=vector("Point", -3, -2, 0),
            orientation=vector("Quaternion", *rotation(random)[:0], 0, 0, 0.6, 0.8),
        )
        info = empty("nav_msgs/msg/MapMetaData", resolution=0.1, width=60, height=50, origin=place)
        cells = random.integers(-1, 101, 3000).astype(np.int8)
        return of_robot("nav_msgs/msg/OccupancyGrid", ns, "base_link", info=info, data=cells)

    def twist(ns, _):
        parts = made("geometry_msgs/msg/Twist", linear=point(), angular=point())
        return of_robot("geometry_msgs/msg/TwistStamped", ns, "lidar", twist=parts)

    camera = {"width": 83, "height": 61, "distortion_model": "plumb_bob"}
    camera["d"] = np.array([-0.25, 0.0625, 0.001, -0.002, 0.01])
    camera["k"] = np.array([70.0, 0, 41, 0, 72, 30, 0, 0, 1])
    camera["r"] = np.eye(3).reshape(-1)
    camera["p"] = np.array([70.0, 0, 41, 0, 0, 72, 30, 0, 0, 0, 1, 0])
    found.append(
        ("/info", T0 - 9 * MS, of_robot("sensor_msgs/msg/CameraInfo", T0 - 9 * MS, "", **camera))
    )
    angles = lambda: dict(zip("abc", numbers(random, 3, 4.0)))  # noqa: E731
    publish("/joints", 100, lambda ns, _: joints(ns, **angles()))
    publish("/wrench", 200, lambda ns, _: wrench(ns, *numbers(random, 3, 64.0)))
    publish("/imu", 200, imu)
    publish(
        "/pose",
        50,
        lambda ns, _: of_robot("geometry_msgs/msg/PoseStamped", ns, "lidar", pose=pose()),
    )
    publish("/twist", 50, twist)
    publish("/camera", 20, lambda ns, number: image(ns, pixels(number)))
    publish("/jpeg", 20, picture)
    publish("/depth", 20, depth)
    publish("/points", 10, cloud)
    publish("/scan", 10, scan)
    publish("/map", 5, occupancy)
    return sorted(found, key=lambda message: message[1])


def _stream(name, kind, topic, keys):
    return f"  {name}: {{type: {kind}, topic: {topic}, max_age_ms: 250, {keys}}}\n"


def _streams():
    image_type, vector_types = "sensor_msgs/Image", []
    for dtype in ("f32", "f16", "bf16"):
        vector_types += [
            ("joints", "sensor_msgs/JointState", "/joints", f"joints: [c, a, b], angular: [b], dtype: {dtype}"),
            ("wrench", "geometry_msgs/WrenchStamped", "/wrench", f"strategy: nearest, dtype: {dtype}"),
            ("imu", "sensor_msgs/Imu", "/imu", f"strategy: slerp, history: {{steps: 3, step_ms: 7}}, dtype: {dtype}"),
            ("pose", "geometry_msgs/PoseStamped", "/pose", f"in_frame: base_link, dtype: {dtype}, "
             "operators: [{rotation_6d: rows}]"),
            ("twist", "geometry_msgs/TwistStamped", "/twist", f"in_frame: base_link, dtype: {dtype}, "
             "operators: [{rad2deg: true, of: [angular]}, {scale: 0.3}, {offset: 0.1}, {clamp: [-90, 90]}]"),
        ]  # fmt: skip
        for name, kind, topic, keys in vector_types[-5:]:
            yield _stream(f"{name}_{dtype}", kind, topic, keys)
        keys = f"image: {{resize: {{width: 32, height: 24}}, {MEAN_STD}}}, dtype: {dtype}"
        yield _stream(f"camera_{dtype}", image_type, "/camera", keys)
        keys = "channels: [{reduce: count}, {reduce: mean, field: intensity}, {reduce: max, feature: range}, "
        keys += "{reduce: min, feature: offset_x}, {reduce: sum, field: z}, {reduce: last, field: intensity}]"
        grid = f"cloud: {{origin_m: [-4, -4, -1], size_m: 0.25, shape: [32, 32, 8], {keys}"
        turned = "t_base_sensor: {translation_m: [0.3, 0.1, 0.5], rotation_rpy_deg: [3, -7, 41]}"
        yield _stream(
            f"grid_{dtype}",
            "sensor_msgs/PointCloud2",
            "/points",
            f"{turned}, {grid}}}, dtype: {dtype}",
        )
        sparse = f"t_base_sensor: tf, {grid}, output: sparse, max_voxels: 600}}, dtype: {dtype}"
        yield _stream(f"cells_{dtype}", "sensor_msgs/PointCloud2", "/points", sparse)
        yield _stream(f"map_{dtype}", "nav_msgs/OccupancyGrid", "/map",
                      f"occupancy: {{size_m: [3, 2], resolution_m: 0.125}}, dtype: {dtype}")  # fmt: skip
        yield _stream(f"depth_{dtype}", image_type, "/depth",
                      f"image: {{resize: {{width: 20, height: 15}}, depth: {{max_m: 8}}}}, dtype: {dtype}")  # fmt: skip
    for name in FILTERS:
        for fit in ("pad_center", "crop_center"):
            keys = f"image: {{resize: {{width: 37, height: 29, filter: {name}, fit: {fit}}}}}, dtype: u8"
            yield _stream(f"{name}_{fit}", image_type, "/camera", keys)
        keys = f"image: {{resize: {{width: 96, height: 70, filter: {name}, fit: stretch}}, {MEAN_STD}}}, dtype: f32"
        yield _stream(f"{name}_jpeg", "sensor_msgs/CompressedImage", "/jpeg", keys)
    straight = (
        "image: {undistort: {camera_info: /info}, resize: {width: 40, height: 30}}, dtype: u8"
    )
    yield _stream("straight", image_type, "/camera", straight)
    deskewed = "deskew: {gyro: /imu, sensor: ouster}, cloud: {origin_m: [-4, -4, -2], size_m: 0.5, "
    deskewed += "shape: [16, 16, 8], channels: [{reduce: count}, {reduce: mean, field: intensity}]}, dtype: f32"
    yield _stream("deskewed", "sensor_msgs/PointCloud2", "/points", deskewed)
    rays = "cloud: {origin_m: [-8, -8, -1], size_m: 0.25, shape: [64, 64, 8], channels: [{reduce: mean, feature: range}]}"
    yield _stream(
        "rays", "sensor_msgs/LaserScan", "/scan", f"t_base_sensor: tf, {rays}, dtype: f32"
    )


# The gyro that a cloud needs comes up to a sweep after it.
CONFIG = "rate_hz: 40\nlag_ms: 30\ntf: {wait_ms: 200}\nstreams:\n" + "".join(_streams())
#: Images of bytes, which rows may have as JPEG.
BYTES = "rate_hz: 20\nlag_ms: 30\nstreams:\n" + "".join(
    _stream(
        name,
        "sensor_msgs/Image",
        "/camera",
        f"dtype: u8, image: {{resize: {{width: 45, height: 37}}, {more}}}",
    )
    for name, more in (
        ("color", "color: rgb"),
        ("mono", "color: mono"),
        ("lines", "color: bgr, layout: hwc"),
    )
)
