"""Depth images, raw and compressed: distances in metres of the nearest pixels, by NumPy."""

import io
import struct

import numpy as np
from fusion import MS, T0, f32, stamped, streams
from in_process import InProcess
from PIL import Image as Picture
from sensor_msgs.msg import CompressedImage, Image

WIDTH, HEIGHT = 24, 16
MIN_M, MAX_M, FILL_M = 0.5, 6.0, -1.0
IMAGE = {
    "resize": {"width": WIDTH, "height": HEIGHT, "fit": "stretch"},
    "depth": {"min_m": MIN_M, "max_m": MAX_M, "fill_m": FILL_M},
    "max_width_px": 80,
}
STREAMS = streams(
    raw={"type": "sensor_msgs/msg/Image", "image": IMAGE},
    packed={"type": "sensor_msgs/msg/CompressedImage", "image": IMAGE},
)


def nearest(pixels):
    """The pixels nearest to the centres of equal shares, in integers."""

    def places(length, count):
        return (2 * np.arange(count) + 1) * length // (2 * count)

    return pixels[np.ix_(places(pixels.shape[0], HEIGHT), places(pixels.shape[1], WIDTH))]


def row(metres):
    """The row's elements for distances in float32."""
    metres = nearest(metres)
    with np.errstate(invalid="ignore"):
        valid = np.isfinite(metres) & (metres > 0) & (metres >= MIN_M) & (metres <= MAX_M)
    return np.where(valid, metres, f32(FILL_M))[None]


def in_metres(numbers):
    """Millimetres as float32: the product in float64, rounded once."""
    return (numbers.astype(np.float64) * 0.001).astype(np.float32)


def millimetres(seed, shape=(37, 61)):
    """Numbers of 16 bits: too near, too far, missing, and good."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 8000, shape).astype(np.uint16)
    numbers[random.random(shape) < 0.2] = 0
    numbers[::7, ::5] = 65535
    return numbers


def image(ns, pixels, encoding, big_endian=False, padding=0):
    """An image with garbage behind every line."""
    height, width = pixels.shape
    ordered = pixels.astype(pixels.dtype.newbyteorder(">" if big_endian else "<"))
    lines = np.frombuffer(ordered.tobytes(), np.uint8).reshape(height, -1)
    data = np.hstack([lines, np.full((height, padding), 0xA5, np.uint8)])
    size = {"width": width, "height": height, "step": data.shape[1]}
    return stamped(
        Image, ns, encoding=encoding, is_bigendian=int(big_endian), data=data.tobytes(), **size
    )


def png(numbers):
    file = io.BytesIO()
    Picture.fromarray(numbers).save(file, "PNG")
    return file.getvalue()


def rvl(numbers):
    """The code of A. D. Wilson, as compressed_depth_image_transport frames it."""
    nibbles = []

    def put(number):
        while True:
            nibble, number = number & 7, number >> 3
            nibbles.append(nibble | (8 if number else 0))
            if not number:
                return

    flat, at, last = numbers.ravel().astype(int).tolist(), 0, 0
    while at < len(flat):
        zeros = next((i for i, n in enumerate(flat[at:]) if n), len(flat) - at)
        at += zeros
        others = next((i for i, n in enumerate(flat[at:]) if not n), len(flat) - at)
        put(zeros)
        put(others)
        for number in flat[at : at + others]:
            change, last = number - last, number
            put(2 * change if change >= 0 else -2 * change - 1)
        at += others
    nibbles += [0] * (-len(nibbles) % 8)
    words = [
        int("".join(f"{n:x}" for n in nibbles[i : i + 8]), 16) for i in range(0, len(nibbles), 8)
    ]
    height, width = numbers.shape
    return struct.pack(f"<II{len(words)}I", width, height, *words)


#: The header before the file: inverse depth, and its two parameters.
A, B = 1234.5, -3.25
HEADER = struct.pack("<iff", 0, A, B)


def compressed(ns, words, data):
    return stamped(CompressedImage, ns, format=words, data=data)


def test_raw_depth_is_in_metres_and_bad_images_are_dropped():
    fusion = InProcess({"streams": STREAMS})
    random = np.random.default_rng(3)
    metres = random.uniform(-1, 8, (31, 43)).astype(np.float32)
    metres[::3, ::4], metres[1::5, :], metres[:, 1::6] = np.nan, np.inf, 0
    metres[4, :] = MIN_M
    cases = [
        ("16UC1", millimetres(1), False, 0, in_metres),
        ("16UC1", millimetres(2), True, 5, in_metres),
        ("mono16", millimetres(4, (16, 24)), False, 2, in_metres),
        ("32FC1", metres, False, 3, lambda pixels: pixels),
        ("32FC1", metres.T.copy(), True, 0, lambda pixels: pixels),
    ]
    now = T0
    for encoding, pixels, big_endian, padding, convert in cases:
        fusion.send("/raw", image(now, pixels, encoding, big_endian, padding))
        got = fusion.tick(now)["raw"]
        expected = row(convert(pixels))
        assert got.valid == [True] and 10 < np.sum(expected != FILL_M) < expected.size, encoding
        np.testing.assert_array_equal(got.array[0], expected, f"{encoding} {big_endian}")
        now += 10 * MS

    # The malformed twins are dropped and counted, and the last image stays.
    cut = image(now, millimetres(1), "16UC1")
    cut.data = cut.data[:-1]
    narrow = image(now, metres, "32FC1")
    narrow.step -= 1
    huge = image(now, millimetres(1), "16UC1")
    huge.height = 2**32 - 1
    bad = [
        (cut, "malformed"),
        (narrow, "malformed"),
        (image(now, np.zeros((9, 9), np.uint8), "mono8"), "unsupported"),
        (image(now, millimetres(1, (3, 81)), "16UC1"), "too_large"),
        (huge, "too_large"),
    ]
    fusion.check_drops("/raw", bad)
    after = fusion.tick(now)["raw"]
    assert after.age_ns == [10 * MS]
    np.testing.assert_array_equal(after.array[0], expected)


def test_compressed_depth_is_that_of_its_numbers_and_bad_files_are_dropped():
    fusion = InProcess({"streams": STREAMS})
    numbers = millimetres(5)
    with np.errstate(divide="ignore"):
        inverse = np.where(numbers == 0, f32(np.nan), f32(A) / (f32(numbers) - f32(B)))
    cases = [
        ("16UC1; compressedDepth png", HEADER + png(numbers), in_metres(numbers)),
        ("16UC1; compressedDepth", HEADER + png(numbers[::-1]), in_metres(numbers[::-1])),
        ("16UC1; compressedDepth rvl", HEADER + rvl(numbers), in_metres(numbers)),
        ("32FC1; compressedDepth png", HEADER + png(numbers), inverse),
        ("32FC1; compressedDepth rvl", HEADER + rvl(numbers.T), inverse.T),
        ("16UC1; png compressed ", png(numbers.T.copy()), in_metres(numbers.T)),
    ]
    now = T0
    for words, data, metres in cases:
        fusion.send("/packed", compressed(now, words, data))
        got = fusion.tick(now)["packed"]
        expected = row(metres)
        assert got.valid == [True] and np.ptp(expected) > 1, words
        np.testing.assert_array_equal(got.array[0], expected, words)
        now += 10 * MS

    gray = io.BytesIO()
    Picture.fromarray(numbers.astype(np.uint8)).save(gray, "PNG")
    longer = struct.pack("<II", 80, 80) + rvl(numbers)[8:]
    vast = struct.pack("<II", 2**31, 2**31) + rvl(numbers)[8:]
    backwards = struct.pack("<iff", 0, -1.0, 0.0)
    bad = [
        ("16UC1; compressedDepth png", HEADER + png(numbers)[:-30], "malformed"),
        ("16UC1; compressedDepth rvl", HEADER + rvl(numbers)[:-8], "malformed"),
        ("16UC1; compressedDepth rvl", HEADER + longer, "malformed"),
        ("16UC1; compressedDepth rvl", HEADER + vast, "too_large"),
        ("16UC1; compressedDepth png", HEADER + png(millimetres(1, (3, 81))), "too_large"),
        ("16UC1; compressedDepth png", HEADER[:-1], "malformed"),
        ("32FC1; compressedDepth png", backwards + png(numbers), "malformed"),
        ("16UC1; compressedDepth png", HEADER + gray.getvalue(), "unsupported"),
        ("rgb8; jpeg compressed bgr8", png(numbers), "unsupported"),
    ]
    fusion.check_drops("/packed", [(compressed(now, w, data), why) for w, data, why in bad])
    after = fusion.tick(now)["packed"]
    assert after.age_ns == [10 * MS]
    np.testing.assert_array_equal(after.array[0], expected)
