#!/usr/bin/env python3
"""Golden rows of presets: the library calls of the projects that config/presets/ names.

    pip install pillow==12.0.0 numpy opencv-python-headless torch
    python tests/golden/make_preset_golden.py

It writes presets.json beside itself. Images are `noise` and `scene` of make_filter_golden.py. Stored are the
bytes of a row before normalisation, `[height, width, 3]`, as CRC-32, and the row's first values after it.
torch's pixels may differ by processor: `contracted` of make_filter_golden.py computes them in NumPy, and
the script fails if that is more than a level from torch, or equal in less than 99.9 %.
"""

import json
import math
import zlib
from pathlib import Path

import cv2
import numpy as np
from make_filter_golden import content_of, contracted, resize
from PIL import Image


def fitted(image, width, height):
    """The size that `resize_with_pad` of openpi and of LeRobot gives."""
    h, w = image.shape[:2]
    ratio = max(w / width, h / height)
    return int(w / ratio), int(h / ratio)


def torch_resize(image, width, height, name):
    found, plain = resize(image, width, height, name), contracted(image, width, height, name)
    difference = np.abs(found.astype(int) - plain.astype(int))
    assert difference.max() <= 1 and (difference == 0).mean() >= 0.999, name
    return plain


def pi0(image):
    w, h = fitted(image, 224, 224)
    canvas = Image.new("RGB", (224, 224), 0)
    resized = Image.fromarray(image).resize((w, h), resample=Image.BILINEAR)
    canvas.paste(resized, (max(0, int((224 - w) / 2)), max(0, int((224 - h) / 2))))
    return np.asarray(canvas)


def pi0_lerobot(image):
    w, h = fitted(image, 224, 224)
    top, left = (224 - h) // 2, (224 - w) // 2
    return np.pad(
        torch_resize(image, w, h, "torch_bilinear"),
        ((top, 224 - h - top), (left, 224 - w - left), (0, 0)),
    )


def smolvla(image):
    w, h = fitted(image, 512, 512)
    resized = torch_resize(image, w, h, "torch_bilinear")
    return np.pad(resized, ((512 - h, 0), (512 - w, 0), (0, 0)))


def groot_n1_5(image):
    h, w = image.shape[:2]
    height, width = int(h * 0.95), int(w * 0.95)
    top, left = int(round((h - height) / 2.0)), int(round((w - width) / 2.0))
    cropped = np.ascontiguousarray(image[top : top + height, left : left + width])
    return torch_resize(cropped, 224, 224, "torch_bilinear_antialias")


def groot_n1_7(image):
    """The defaults of Gr00tN1d7Config: Resize, CenterCrop and Resize of albumentations."""
    first = cv2.resize(image, (256, 256), interpolation=cv2.INTER_AREA)
    start = (256 - 230) // 2
    cropped = np.ascontiguousarray(first[start : start + 230, start : start + 230])
    return cv2.resize(cropped, (256, 256), interpolation=cv2.INTER_AREA)


def covering(image, width, height):
    """`get_image_transform` of Diffusion Policy and UMI, for smaller results."""
    h, w = image.shape[:2]
    if w / h >= width / height:
        rw, rh = math.ceil(height / h * w), height
    else:
        rw, rh = width, math.ceil(width / w * h)
    resized = cv2.resize(image, (rw, rh), interpolation=cv2.INTER_AREA)
    x, y = (rw - width) // 2, (rh - height) // 2
    return np.ascontiguousarray(resized[y : y + height, x : x + width])


MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
ZERO_ONE = lambda values: values / np.float32(255)  # noqa: E731
MINUS_ONE_ONE = lambda values: values / np.float32(255) * np.float32(2) - np.float32(1)  # noqa: E731
# Per preset: the pixels, the values of a byte, and whether channels come first.
PRESETS = {
    "act": (lambda image: image, lambda values: (values / np.float32(255) - MEAN) / STD, True),
    "diffusion_policy": (lambda image: covering(image, 320, 240), ZERO_ONE, True),
    "umi": (lambda image: covering(image, 224, 224), ZERO_ONE, True),
    "pi0": (pi0, MINUS_ONE_ONE, False),
    "pi0_lerobot": (pi0_lerobot, MINUS_ONE_ONE, True),
    "smolvla": (smolvla, MINUS_ONE_ONE, True),
    "groot_n1_5": (groot_n1_5, None, False),
    "groot_n1_7": (groot_n1_7, None, False),
}
SIZES = [(640, 480), (1280, 720), (480, 640), (512, 512)]


def main():
    results = []
    for name, (pixels, normalise, channels_first) in PRESETS.items():
        for width, height in [(640, 480)] if name == "act" else SIZES:
            for content in ["noise", "scene"]:
                row = np.ascontiguousarray(pixels(content_of(content, width, height)))
                if normalise:
                    row = normalise(row.astype(np.float32)).astype("<f4")
                if channels_first:
                    row = np.ascontiguousarray(row.transpose(2, 0, 1))
                case = dict(preset=name, content=content, width=width, height=height)
                case.update(shape=row.shape, crc32=zlib.crc32(row.tobytes()))
                results.append(json.dumps(case))
    text = '{"cases": [\n%s\n]}\n' % ",\n".join(results)
    Path(__file__).with_name("presets.json").write_text(text)


if __name__ == "__main__":
    main()
