#!/usr/bin/env python3
"""Golden pixels of YUV images, made with OpenCV: `pip install opencv-python-headless numpy`.

    python3 tests/golden/make_yuv_golden.py      writes tests/golden/yuv.json

Each image has random bytes, among them the extremes of luma and chroma.
"""

import json
from pathlib import Path

import cv2
import numpy as np

WIDTH, HEIGHT = 24, 8
LAYOUTS = {
    "yuv422": (cv2.COLOR_YUV2RGB_UYVY, (HEIGHT, WIDTH, 2)),
    "yuv422_yuy2": (cv2.COLOR_YUV2RGB_YUY2, (HEIGHT, WIDTH, 2)),
    "nv12": (cv2.COLOR_YUV2RGB_NV12, (HEIGHT * 3 // 2, WIDTH)),
    "nv21": (cv2.COLOR_YUV2RGB_NV21, (HEIGHT * 3 // 2, WIDTH)),
}


def main():
    rng = np.random.default_rng(9)
    cases = []
    for name, (code, shape) in LAYOUTS.items():
        data = rng.integers(0, 256, shape, dtype=np.uint8)
        extreme = rng.random(shape) < 0.3
        data[extreme] = rng.choice([0, 15, 16, 17, 127, 128, 235, 240, 255], extreme.sum())
        rgb = cv2.cvtColor(data, code)
        assert rgb.shape == (HEIGHT, WIDTH, 3)
        cases.append({"encoding": name, "data": data.tobytes().hex(), "rgb": rgb.tobytes().hex()})
    golden = {"opencv": cv2.__version__, "width": WIDTH, "height": HEIGHT, "cases": cases}
    path = Path(__file__).parent / "yuv.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
