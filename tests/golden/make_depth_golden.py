#!/usr/bin/env python3
"""Golden depth images: `pip install opencv-python-headless pillow numpy`.

    python3 tests/golden/make_depth_golden.py      writes tests/golden/depth.json

Each case is the `format` and the `data` of a CompressedImage, and what it holds: numbers of 16 bits, or
metres as float32. PNG is written by OpenCV. RVL is written here, from the description in A. D. Wilson,
"Fast Lossless Depth Image Compression", ISS 2017. Inverse depth follows compressed_depth_image_transport:
number = a / depth + b with a = q * (q + 1) and b = 1 - a / depth_max, for a quantisation q.

`nearest` has rows of one image of numbers: Pillow's NEAREST resize, in metres.
"""

import json
import struct
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

WIDTH, HEIGHT = 21, 10
QUANTISATION, DEPTH_MAX = np.float32(100), np.float32(10)
SIZES = [(21, 10), (7, 5), (30, 9), (1, 1), (5, 23)]


class Nibbles:
    """Words of 32 bits, filled from their most significant nibble."""

    def __init__(self):
        self.nibbles = []

    def number(self, value):
        while True:
            more = 8 if value >> 3 else 0
            self.nibbles.append(value & 7 | more)
            value >>= 3
            if not more:
                return

    def words(self):
        padded = self.nibbles + [0] * (-len(self.nibbles) % 8)
        groups = [padded[at : at + 8] for at in range(0, len(padded), 8)]
        return b"".join(struct.pack("<I", int("".join(f"{n:x}" for n in g), 16)) for g in groups)


def rvl(image):
    """Sizes, then runs of zeros and of differences in turn."""
    out, last, at = Nibbles(), 0, 0
    pixels = [int(value) for value in image.ravel()]
    while at < len(pixels):
        end = at
        while end < len(pixels) and pixels[end] == 0:
            end += 1
        out.number(end - at)
        at = end
        while end < len(pixels) and pixels[end] != 0:
            end += 1
        out.number(end - at)
        for value in pixels[at:end]:
            delta = value - last
            out.number(2 * delta if delta >= 0 else -2 * delta - 1)
            last = value
        at = end
    return struct.pack("<II", image.shape[1], image.shape[0]) + out.words()


def png(image):
    return cv2.imencode(".png", image)[1].tobytes()


def numbers():
    """Surfaces, edges, holes, noise and extremes."""
    rng = np.random.default_rng(8)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    image = (1000 + 3 * x + 20 * y).astype(np.uint16)
    image[2:5, 4:12] = 400
    image[6:, 10:] = rng.integers(0, 65536, (HEIGHT - 6, WIDTH - 10))
    image[rng.random(image.shape) < 0.2] = 0
    image[0, :4] = [65535, 1, 65535, 0]
    return image


def inverse(image):
    """The numbers of metres, the parameters, and the metres that come back."""
    a = QUANTISATION * (QUANTISATION + np.float32(1))
    b = np.float32(1) - a / DEPTH_MAX
    metres = image.astype(np.float32) * np.float32(0.001)
    with np.errstate(divide="ignore"):
        coded = np.where((metres > 0) & (metres < DEPTH_MAX), a / metres + b, 0).astype(np.uint16)
        back = a / (coded.astype(np.float32) - b)
    back[coded == 0] = np.nan
    assert back.dtype == np.float32 and 0 < (coded == 0).sum() < coded.size / 2
    return coded, struct.pack("<iff", 0, a, b), back


def main():
    deep = numbers()
    plain = struct.pack("<iff", 0, 0, 0)
    coded, header, metres = inverse(deep)
    zeros = np.zeros_like(deep)
    full = np.full_like(deep, 7)
    cases = [
        ("16UC1; compressedDepth", plain + png(deep), deep),
        ("16UC1; compressedDepth png", plain + png(deep), deep),
        ("mono16; compressedDepth rvl", plain + rvl(deep), deep),
        ("16UC1; compressedDepth rvl", plain + rvl(zeros), zeros),
        ("16UC1; compressedDepth rvl", plain + rvl(full), full),
        ("16UC1; png compressed ", png(deep), deep),
        ("png", png(deep), deep),
        ("32FC1; compressedDepth png", header + png(coded), metres),
        ("32FC1; compressedDepth", header + png(coded), metres),
        ("32FC1; compressedDepth rvl", header + rvl(coded), metres),
    ]
    rows = []
    for width, height in SIZES:
        row = np.asarray(Image.fromarray(deep).resize((width, height), Image.NEAREST))
        in_metres = (row.astype(np.float64) * 0.001).astype("<f4")
        rows.append({"width": width, "height": height, "metres": in_metres.tobytes().hex()})
    golden = {
        "opencv": cv2.__version__,
        "width": WIDTH,
        "height": HEIGHT,
        "numbers": deep.astype("<u2").tobytes().hex(),
        "nearest": rows,
        "cases": [
            {
                "format": name,
                "data": data.hex(),
                "pixels": held.astype(held.dtype.newbyteorder(">")).tobytes().hex(),
            }
            for name, data, held in cases
        ],
    }
    path = Path(__file__).parent / "depth.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
