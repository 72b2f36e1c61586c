#!/usr/bin/env python3
"""Golden tables and images of cameras that are undistorted, made with OpenCV.

    python -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy opencv-python-headless scikit-image
    /tmp/golden/bin/python tests/golden/make_undistort_golden.py

It writes undistort.json beside itself: per case the numbers of a sensor_msgs/CameraInfo, and the CRC-32 of
both maps of OpenCV (CV_16SC2 and CV_16UC1) and of `cv2.remap` of an RGB and of a gray image. The bytes of
an image follow from their index (`noise`). Binning and region of interest are applied as ROS'
image_geometry does: maps at the binned resolution, of which the region is cut out.

`--live FILE` compares with random cameras and with photographs (`make golden-live`): FILE is what `cargo
build --example undistort` builds. `--speed` prints the time of `cv2.remap` on one core, to compare with
`cargo run --release --example undistort_speed`.
"""

import json
import subprocess
import sys
import time
import zlib
from pathlib import Path

import cv2
import numpy as np

EYE = np.eye(3).ravel().tolist()


def noise(length):
    x = np.arange(length, dtype=np.uint32) * np.uint32(2654435761)
    x ^= x >> np.uint32(15)
    return ((x * np.uint32(2246822519)) >> np.uint32(24)).astype(np.uint8)


def camera(model, d, size, k, r=EYE, p=None, binning=(0, 0), roi=(0, 0, 0, 0)):
    """The fields of a CameraInfo; `k` and `p` are fx, fy, cx, cy. Without `p` it is zeros."""
    fx, fy, cx, cy = k
    k = [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0]
    if p is None:
        p = [0.0] * 12
    else:
        fx, fy, cx, cy = p
        p = [fx, 0.0, cx, -40.5, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0]
    return dict(
        model=model,
        d=list(d),
        size=list(size),
        k=k,
        r=list(r),
        p=p,
        binning=list(binning),
        roi=list(roi),
    )


def turned(*axis):
    return cv2.Rodrigues(np.array(axis))[0].ravel().tolist()


def maps(info):
    """OpenCV's maps for the images of a camera, and their width and height."""
    width, height = info["size"]
    by = [max(b, 1) for b in info["binning"]]
    x, y, roi_width, roi_height = info["roi"] if any(info["roi"]) else (0, 0, width, height)
    k = np.array(info["k"]).reshape(3, 3)
    p = np.array(info["p"]).reshape(3, 4)[:, :3].copy()
    if not p.any():
        p = k.copy()
    r = np.array(info["r"]).reshape(3, 3)
    if not r.any():
        r = np.eye(3)
    for matrix in (k, p):
        for axis, b in enumerate(by):
            if b > 1:
                matrix[axis, axis] *= 1.0 / b
                matrix[axis, 2] *= 1.0 / b
    size = (width // by[0], height // by[1])
    d = np.array(info["d"])
    make = cv2.fisheye if info["model"] == "equidistant" else cv2
    points, fractions = make.initUndistortRectifyMap(k, d, r, p, size, cv2.CV_16SC2)
    x, y, roi_width, roi_height = x // by[0], y // by[1], roi_width // by[0], roi_height // by[1]
    part = np.s_[y : y + roi_height, x : x + roi_width]
    points = np.ascontiguousarray(points[part] - np.array([x, y], np.int16))
    return points, np.ascontiguousarray(fractions[part]), (roi_width, roi_height)


PLUMB_BOB = [-0.3127, 0.1263, 0.00071, -0.00043, -0.0217]
RATIONAL = [0.417, -2.613, 0.00063, -0.00017, 1.523, 0.297, -2.437, 1.451]
THIN = [0.0013, -0.0007, 0.0011, -0.0004]
FISHEYE = [-0.0213, 0.0071, -0.0083, 0.0019]
WIDE = (293.17, 294.61, 321.43, 241.87)
CAMERAS = [
    camera("plumb_bob", PLUMB_BOB, (640, 480), (431.17, 432.61, 317.43, 244.87)),
    camera("plumb_bob", PLUMB_BOB[:4], (640, 480), (431.17, 432.61, 317.43, 244.87), EYE, WIDE),
    camera(
        "plumb_bob",
        PLUMB_BOB,
        (640, 480),
        (431.17, 432.61, 317.43, 244.87),
        turned(0.013, -0.021, 0.007),
        WIDE,
    ),
    camera("plumb_bob", [0.2117, 0, 0, 0, 0], (97, 61), (60.13, 61.77, 47.91, 30.29), [0.0] * 9),
    camera("rational_polynomial", RATIONAL, (1280, 720), (611.37, 611.23, 639.17, 367.71)),
    camera("rational_polynomial", RATIONAL + THIN, (640, 480), (431.17, 432.61, 317.43, 244.87)),
    camera(
        "rational_polynomial",
        RATIONAL + THIN + [0.0171, -0.0093],
        (640, 480),
        (431.17, 432.61, 317.43, 244.87),
        turned(-0.011, 0.003, 0.017),
        (400.19, 401.41, 322.13, 238.91),
    ),
    camera(
        "equidistant",
        FISHEYE,
        (640, 480),
        (285.19, 286.07, 319.51, 237.83),
        EYE,
        (150.31, 151.17, 320.7, 240.3),
    ),
    camera(
        "equidistant",
        [0.0] * 4,
        (320, 240),
        (103.19, 103.67, 161.31, 118.83),
        turned(0.02, 0.01, -0.03),
    ),
    camera(
        "equidistant", FISHEYE, (320, 240), (143.19, 143.67, 161.31, 118.83), turned(0.4, 0.3, -0.3)
    ),
    camera(
        "plumb_bob",
        PLUMB_BOB,
        (1280, 960),
        (862.33, 865.21, 634.87, 489.73),
        EYE,
        (700.3, 701.9, 640.1, 480.7),
        (2, 2),
    ),
    camera(
        "plumb_bob",
        PLUMB_BOB,
        (1280, 960),
        (862.33, 865.21, 634.87, 489.73),
        roi=(203, 151, 641, 333),
    ),
    camera(
        "plumb_bob",
        PLUMB_BOB,
        (1281, 963),
        (862.33, 865.21, 634.87, 489.73),
        turned(0.013, -0.021, 0.007),
        (700.3, 701.9, 640.1, 480.7),
        (2, 3),
        (203, 151, 641, 333),
    ),
    camera(
        "equidistant",
        FISHEYE,
        (1280, 960),
        (570.19, 571.07, 639.51, 477.83),
        binning=(4, 2),
        roi=(0, 100, 1280, 300),
    ),
    camera("plumb_bob", [5.3, 0, 0, 0, 0], (33, 1), (31.13, 30.77, 15.91, 0.29)),
    camera("plumb_bob", [-0.9, 0.4, 0, 0, 0], (1, 21), (31.13, 30.77, 0.31, 9.29)),
]


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def main():
    results = []
    for info in CAMERAS:
        points, fractions, (width, height) = maps(info)
        assert np.abs(points.astype(int)).max() < 30_000, info
        rgb = noise(3 * width * height).reshape(height, width, 3)
        gray = noise(width * height).reshape(height, width)
        remap = [cv2.remap(image, points, fractions, cv2.INTER_LINEAR) for image in (rgb, gray)]
        crcs = dict(
            points=crc(points), fractions=crc(fractions), rgb=crc(remap[0]), gray=crc(remap[1])
        )
        results.append(json.dumps({**info, **crcs}))
    text = '{"cv2": "%s", "cases": [\n%s\n]}\n' % (cv2.__version__, ",\n".join(results))
    Path(__file__).with_name("undistort.json").write_text(text)


def random_camera(rng):
    width, height = int(rng.integers(1, 900)), int(rng.integers(1, 700))
    near = lambda value, by: float(value * (1 + rng.uniform(-by, by)))  # noqa: E731
    focal = rng.uniform(0.35, 1.2) * max(width, height)
    k = (near(focal, 0.02), near(focal, 0.02), near(width / 2, 0.1), near(height / 2, 0.1))
    p = (near(focal, 0.3), near(focal, 0.3), near(width / 2, 0.1), near(height / 2, 0.1))
    r = turned(*rng.uniform(-0.1, 0.1, 3))
    model = rng.choice(["plumb_bob", "rational_polynomial", "equidistant"])
    if model == "equidistant":
        d = rng.uniform(-0.03, 0.03, 4)
    elif model == "plumb_bob":
        d = rng.uniform(-0.35, 0.35, 5) * [1, 0.5, 0.01, 0.01, 0.1]
    else:
        d = np.r_[
            rng.uniform(-0.3, 0.3, 8) * [1, 1, 0.01, 0.01, 1, 1, 1, 1], rng.uniform(-1, 1, 6) * 0.01
        ]
        d = d[: rng.choice([8, 12, 14])]
    binning = [int(b) for b in rng.choice([0, 1, 2, 3], 2)]
    roi = (0, 0, 0, 0)
    if rng.random() < 0.4 and width > 20 and height > 20:
        x, y = int(rng.integers(0, width - 10)), int(rng.integers(0, height - 10))
        roi = (x, y, int(rng.integers(6, width - x)), int(rng.integers(6, height - y)))
    kept = p if rng.random() < 0.7 else None
    return camera(
        str(model), [float(value) for value in d], (width, height), k, r, kept, binning, roi
    )


def photographs():
    try:
        from skimage import data
    except ImportError:
        return
    for name in ["astronaut", "coffee", "chelsea", "rocket"]:
        yield np.ascontiguousarray(getattr(data, name)())


def compare(program, info, image):
    """Different points, fractions and bytes; also how many there are of each."""
    points, fractions, (width, height) = maps(info)
    image = np.ascontiguousarray(image[:height, :width])
    numbers = [*info["size"], *info["binning"], *info["roi"], image.shape[2]]
    numbers += [*info["k"], *info["r"], *info["p"], *info["d"]]
    done = subprocess.run(
        [program, info["model"], *map(repr, numbers)],
        input=image.tobytes(),
        capture_output=True,
        check=True,
    )
    pixels = width * height
    assert len(done.stdout) == pixels * (6 + image.shape[2]), info
    found_points = np.frombuffer(done.stdout[: 4 * pixels], np.int16).reshape(points.shape)
    found_fractions = np.frombuffer(done.stdout[4 * pixels : 6 * pixels], np.uint16)
    found = np.frombuffer(done.stdout[6 * pixels :], np.uint8)
    # Further away, OpenCV itself depends on the width: see docs/inputs.md.
    near = (np.abs(points.astype(int)) < 30_000).all(-1) & (
        np.abs(found_points.astype(int)) < 30_000
    ).all(-1)
    moved = (found_points != points).any(-1) | (
        found_fractions.reshape(fractions.shape) != fractions
    )
    expected = cv2.remap(image, points, fractions, cv2.INTER_LINEAR).reshape(found.shape)
    return np.array([(moved & near).sum(), near.sum(), (found != expected).sum(), found.size])


def live(program):
    rng = np.random.default_rng(3)
    total = np.zeros(4, int)
    for _ in range(400):
        info = random_camera(rng)
        width, height = info["size"]
        if min(width // max(info["binning"][0], 1), height // max(info["binning"][1], 1)) == 0:
            continue
        channels = int(rng.choice([1, 3]))
        total += compare(
            program, info, rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
        )
    for image in photographs():
        height, width = image.shape[:2]
        for _ in range(6):
            info = random_camera(rng)
            scale = max(width, height) / max(info["size"])
            k = [info["k"][0] * scale, info["k"][4] * scale, width / 2 + 0.31, height / 2 - 0.17]
            total += compare(
                program, camera(info["model"], info["d"], (width, height), k, info["r"]), image
            )
    moved, points, wrong, values = total
    print(
        f"undistort: {moved} of {points} points differ, {wrong} of {values} bytes, cv2 {cv2.__version__}"
    )
    # A point may be nearest to two 32nds of a pixel, which the last bit of a float decides.
    sys.exit(bool(moved > points * 1e-6 or wrong > values * 1e-6))


def speed():
    cv2.setNumThreads(1)
    width, height = 1920, 1080
    info = camera("plumb_bob", PLUMB_BOB, (width, height), (1100.3, 1102.1, 955.3, 541.7))
    points, fractions, _ = maps(info)
    for channels in (3, 1):
        image = noise(width * height * channels).reshape(height, width, channels)
        times = []
        for _ in range(60):
            start = time.perf_counter()
            cv2.remap(image, points, fractions, cv2.INTER_LINEAR)
            times.append(1e3 * (time.perf_counter() - start))
        times.sort()
        print(
            f"cv2.remap 1920x1080, {channels} channels [ms]: median {times[30]:.3f}, least {times[0]:.3f}"
        )


if __name__ == "__main__":
    if "--live" in sys.argv:
        live(sys.argv[sys.argv.index("--live") + 1])
    elif "--speed" in sys.argv:
        speed()
    else:
        main()
