#!/usr/bin/env python3
"""Golden pixels of Bayer mosaics and of gray with 16 bits: `pip install opencv-python-headless numpy`.

    python3 tests/golden/make_raw_golden.py      writes tests/golden/raw.json

The mosaics have random bytes and extremes, and even, odd and the least sizes. For gray, the file has the
least number of 16 bits that becomes each byte, as cv_bridge scales mono16 to mono8 (by 255/65535). Mosaics of 16
bits become RGB of 16 bits, which is then scaled in the same way: this is cv_bridge's order.
"""

import json
from pathlib import Path

import cv2
import numpy as np

SIZES = [(16, 8), (9, 7), (10, 3), (3, 10), (3, 3), (37, 4)]
#: OpenCV names a pattern by the second and third pixel of the second line.
PATTERNS = {
    "bayer_rggb8": cv2.COLOR_BayerBG2RGB,
    "bayer_bggr8": cv2.COLOR_BayerRG2RGB,
    "bayer_gbrg8": cv2.COLOR_BayerGR2RGB,
    "bayer_grbg8": cv2.COLOR_BayerGB2RGB,
}


def mosaics():
    rng = np.random.default_rng(4)
    for name, code in PATTERNS.items():
        for width, height in SIZES:
            data = rng.integers(0, 256, (height, width), dtype=np.uint8)
            extreme = rng.random(data.shape) < 0.3
            data[extreme] = rng.choice([0, 1, 254, 255], extreme.sum())
            rgb = cv2.cvtColor(data, code)
            assert rgb.shape == (height, width, 3)
            yield {
                "encoding": name,
                "width": width,
                "height": height,
                "data": data.tobytes().hex(),
                "rgb": rgb.tobytes().hex(),
            }


def deep_mosaics():
    """Mosaics of 16 bits; their bytes have the least significant one first."""
    rng = np.random.default_rng(16)
    for name, code in PATTERNS.items():
        for width, height in SIZES:
            data = rng.integers(0, 65536, (height, width), dtype=np.uint16)
            extreme = rng.random(data.shape) < 0.3
            data[extreme] = rng.choice([0, 1, 128, 129, 65406, 65407, 65535], extreme.sum())
            rgb = scaled(cv2.cvtColor(data, code))
            assert rgb.shape == (height, width, 3) and rgb.dtype == np.uint8
            yield {
                "encoding": name.removesuffix("8") + "16",
                "width": width,
                "height": height,
                "data": data.astype("<u2").tobytes().hex(),
                "rgb": rgb.tobytes().hex(),
            }


def scaled(numbers):
    """Bytes of numbers of 16 bits."""
    return cv2.convertScaleAbs(numbers, alpha=255 / 65535)


def thresholds():
    """The least number that becomes each byte."""
    numbers = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    levels = scaled(numbers).ravel()
    assert (np.diff(levels.astype(int)) >= 0).all() and levels[-1] == 255
    return [int(np.searchsorted(levels, byte)) for byte in range(256)]


def main():
    cases = [*mosaics(), *deep_mosaics()]
    golden = {"opencv": cv2.__version__, "mono16": thresholds(), "cases": cases}
    path = Path(__file__).parent / "raw.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
