"""Images and the CameraInfo of their camera: the pixels that OpenCV would give."""

import io

import numpy as np
from fusion import MS, RELIABLE, T0, stamped, start_fusion, streams
from in_process import InProcess
from PIL import Image as Picture
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

WIDTH, HEIGHT = 96, 72
ROW = {
    "undistort": {"camera_info": "/camera_info"},
    "resize": {"width": WIDTH, "height": HEIGHT, "fit": "stretch"},
    "layout": "hwc",
}
STREAMS = streams(
    camera={"type": "sensor_msgs/msg/Image", "image": ROW, "dtype": "u8"},
    files={"type": "sensor_msgs/msg/CompressedImage", "image": ROW, "dtype": "u8"},
)
# Its part of the diagnostics.
CAMERA_INFO = "camera.camera_info /camera_info"
LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


def camera(d, model="plumb_bob", **fields):
    k = [71.3, 0.0, 47.1, 0.0, 72.7, 36.9, 0.0, 0.0, 1.0]
    p = [60.1, 0.0, 46.3, 0.0, 0.0, 61.9, 35.7, 0.0, 0.0, 0.0, 1.0, 0.0]
    turn = 0.013
    r = [np.cos(turn), -np.sin(turn), 0.0, np.sin(turn), np.cos(turn), 0.0, 0.0, 0.0, 1.0]
    size = {"width": WIDTH, "height": HEIGHT}
    return CameraInfo(distortion_model=model, d=d, k=k, r=r, p=p, **{**size, **fields})


def undistorted(image, info):
    """cv2.remap of cv2.initUndistortRectifyMap, in NumPy."""
    k, r = np.reshape(info.k, (3, 3)), np.reshape(info.r, (3, 3))
    ray = np.linalg.inv(np.reshape(info.p, (3, 4))[:, :3] @ r)
    line, column = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    x, y, w = np.einsum("ij,jhw->ihw", ray, np.stack([column, line, np.ones_like(line)]))
    x, y = x / w, y / w
    if info.distortion_model == "equidistant":
        radius = np.hypot(x, y)
        angle = np.arctan(radius)
        powers = [angle**2, angle**4, angle**6, angle**8]
        bent = angle * (1 + sum(k * power for k, power in zip(info.d, powers)))
        scale = np.where(radius == 0, 1, bent / np.where(radius == 0, 1, radius))
        x, y = x * scale, y * scale
    else:
        k1, k2, p1, p2, k3 = info.d
        r2 = x * x + y * y
        radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
        x, y = (
            x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
            y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
        )
    u = np.rint((k[0, 0] * x + k[0, 2]) * 32).astype(int)
    v = np.rint((k[1, 1] * y + k[1, 2]) * 32).astype(int)
    black = np.zeros((HEIGHT + 2, WIDTH + 2, 3), int)
    black[1:-1, 1:-1] = image

    def at(y, x):
        return black[np.clip(y + 1, 0, HEIGHT + 1), np.clip(x + 1, 0, WIDTH + 1)]

    (x, y), fx, fy = (u >> 5, v >> 5), (u & 31)[..., None], (v & 31)[..., None]
    top = (32 - fx) * at(y, x) + fx * at(y, x + 1)
    bottom = (32 - fx) * at(y + 1, x) + fx * at(y + 1, x + 1)
    return (((32 - fy) * top + fy * bottom + 512) >> 10).astype(np.uint8)


def pixels(seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def raw(array, ns):
    height, width, _ = array.shape
    size = {"height": height, "width": width, "step": 3 * width}
    return stamped(Image, ns, encoding="rgb8", data=array.tobytes(), **size)


def png(array, ns):
    file = io.BytesIO()
    Picture.fromarray(array).save(file, "PNG")
    return stamped(CompressedImage, ns, format="rgb8; png compressed ", data=file.getvalue())


def test_images_are_undistorted_by_the_camera_info_of_their_camera():
    fusion = InProcess({"streams": STREAMS})

    # Before the first CameraInfo: a counted drop that names the topic.
    early = fusion.send("/camera", raw(pixels(1), T0))
    assert "expected a CameraInfo on /camera_info before the image" in early.detail
    assert fusion.value("/camera", "dropped.no_camera_info") == 1
    # Both streams have one input of it.
    infos = [of["name"] for of in fusion.pipeline.inputs if of["topic"] == "/camera_info"]
    assert infos == ["camera.camera_info"]

    first = camera([-0.31, 0.12, 0.0007, -0.0004, -0.02])
    assert fusion.send("/camera_info", first)
    fusion.send("/camera", raw(pixels(2), T0 + MS))
    fusion.send("/files", png(pixels(3), T0 + MS))
    got = fusion.tick(T0 + 10 * MS)
    np.testing.assert_array_equal(got["camera"].array[0], undistorted(pixels(2), first))
    np.testing.assert_array_equal(got["files"].array[0], undistorted(pixels(3), first))
    assert not np.array_equal(got["camera"].array[0], pixels(2))

    # The malformed twins: each is dropped and counted, and the camera stays.
    bad = [
        (camera([0.1, 0.2, 0.3]), "malformed"),
        (camera([0.1] * 5, model="bent"), "unsupported"),
        (camera([float("nan")] * 5), "non_finite"),
        (camera([0.1] * 5, width=0), "out_of_range"),
    ]
    fusion.check_drops("/camera_info", bad)
    fusion.send("/camera", raw(pixels(4), T0 + 11 * MS))
    half = pixels(5)[: HEIGHT // 2]
    small = fusion.send("/files", png(half, T0 + 11 * MS))
    got = fusion.tick(T0 + 20 * MS)
    np.testing.assert_array_equal(got["camera"].array[0], undistorted(pixels(4), first))
    assert fusion.value("files", "dropped.wrong_size") == 1
    assert f"found {WIDTH}x{HEIGHT // 2} px" in small.detail
    assert f"expected an image of {WIDTH}x{HEIGHT} px" in small.detail

    # New numbers count at once, and a jump of the clock clears none.
    second = camera([0.021, -0.007, 0.003, -0.001], model="equidistant")
    assert fusion.send("/camera_info", second)
    past = T0 - 10_000 * MS
    fusion.advance(past)
    fusion.send("/camera", raw(pixels(6), past))
    got = fusion.tick(past + 10 * MS)
    np.testing.assert_array_equal(got["camera"].array[0], undistorted(pixels(6), second))


def test_a_camera_info_that_was_latched_before_the_node_started_is_taken(ros, start, tmp_path):
    publisher = ros.node.create_publisher(CameraInfo, "/camera_info", LATCHED)
    info = camera([-0.31, 0.12, 0.0007, -0.0004, -0.02])
    publisher.publish(info)
    fusion = start_fusion(ros, start, tmp_path, {"streams": STREAMS}).warm_up()
    fusion.await_value(CAMERA_INFO, "accepted", 1)
    fusion.send("/camera", raw(pixels(2), T0 + MS))
    got = fusion.tick(T0 + 10 * MS)
    np.testing.assert_array_equal(got["camera"].array[0], undistorted(pixels(2), info))


def test_a_camera_info_with_every_image_is_taken_from_a_volatile_publisher(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": STREAMS}).warm_up()
    publisher = ros.node.create_publisher(CameraInfo, "/camera_info", RELIABLE)
    info = camera([-0.31, 0.12, 0.0007, -0.0004, -0.02])

    def heard():
        publisher.publish(info)
        return ros.spin_for(0.5, until=lambda: fusion.value(CAMERA_INFO, "accepted") > 0)

    # The node subscribes again when it finds this publisher. Messages that come before are not kept.
    fusion.until(heard, "the node hears the camera")
    for step in range(1, 6):
        before = fusion.value(CAMERA_INFO, "accepted")
        publisher.publish(info)
        fusion.until(
            lambda before=before: fusion.value(CAMERA_INFO, "accepted") > before,
            "the node takes every CameraInfo",
        )
        fusion.send("/camera", raw(pixels(step), T0 + step * MS))
    got = fusion.tick(T0 + 10 * MS)
    np.testing.assert_array_equal(got["camera"].array[0], undistorted(pixels(5), info))
