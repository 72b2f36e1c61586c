#!/usr/bin/env python3
"""Golden rows of the resize filters, made with the libraries that they are named after.

    python -m venv /tmp/golden
    /tmp/golden/bin/pip install pillow==12.0.0 numpy opencv-python-headless torch scikit-image
    /tmp/golden/bin/python tests/golden/make_filter_golden.py [FILTER ...]

It writes filters.json beside itself. With names of filters it makes their cases only, and keeps the others.
Pillow has two filters, by its version. So the cases of `pil13_bilinear` need a second run, with
pillow==13.0.0; without names, a run keeps the cases of the other version. The bytes of an image
follow from their index (`noise`, and `scene`: slopes and edges), so that only results are stored: per case the
CRC-32 of the pixels.

For torch the pixels are those of `contracted`, the same sums in NumPy, because those of torch itself
differ by processor. The script fails if the two are more than a level apart, or differ in more
than one byte and 0.1 % of all, and stores the share that is equal.

`--live FILE` compares with any images instead (`make golden-live` uses the photographs of scikit-image):
FILE is what `cargo run --example image_filters` reads and writes, see `live`.
"""

import json
import subprocess
import sys
import zlib
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image

#: The filters of Pillow 11.3 to 12.1 (12.2 and 12.3 unless an image is more than 100 times as high as wide) and of 13, and that of the installed one.
PILLOWS = ["pil_bilinear", "pil13_bilinear"]
PILLOW = PILLOWS[int(Image.__version__.split(".")[0]) >= 13]
FILTERS = [
    PILLOW,
    "torch_bilinear",
    "torch_bilinear_antialias",
    "cv2_linear",
    "cv2_area",
    "nearest",
]
CV2 = {
    "cv2_linear": cv2.INTER_LINEAR,
    "cv2_area": cv2.INTER_AREA,
    "nearest": cv2.INTER_NEAREST,
}


def noise(length):
    x = np.arange(length, dtype=np.uint32) * np.uint32(2654435761)
    x ^= x >> np.uint32(15)
    return ((x * np.uint32(2246822519)) >> np.uint32(24)).astype(np.uint8)


def scene(width, height):
    """Slopes and edges, in integers: crates/core/tests/core/filter_golden.rs makes the same."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    slope = (x * (3 + c) + y * (5 - c)) // 4 % 256
    edge = ((x // 37 + y // 23 + c) % 3 == 0) * 96
    return ((slope + edge) % 256).astype(np.uint8)


def resize(image, width, height, name):
    """The pixels of the library, of [height, width, 3] bytes."""
    if name == PILLOW:
        return np.asarray(Image.fromarray(image).resize((width, height), Image.BILINEAR))
    if name in CV2:
        return cv2.resize(image, (width, height), interpolation=CV2[name])
    tensor = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None].float()
    resized = torch.nn.functional.interpolate(
        tensor,
        size=(height, width),
        mode="bilinear",
        align_corners=False,
        antialias=name.endswith("antialias"),
    )
    rounded = resized.round().clamp(0, 255).to(torch.uint8)[0]
    return np.ascontiguousarray(rounded.numpy().transpose(1, 2, 0))


def contracted(image, width, height, name):
    """What torch computes: two passes in float32, each product added before it is rounded."""
    one, half = np.float32(1), np.float32(0.5)

    def weights(inputs, outputs):
        scale = np.float32(inputs) / np.float32(outputs)
        for output in range(outputs):
            centre = np.float32(scale * (np.float32(output) + half))
            if name == "torch_bilinear":
                at = max(np.float32(centre - half), np.float32(0))
                first = min(int(at), inputs - 1)
                weight = min(np.float32(at - np.float32(first)), one)
                yield [(min(first + 1, inputs - 1), weight), (first, one - weight)]
                continue
            support = max(scale, one)
            first = max(int(np.float32(centre - support) + half), 0)
            end = min(int(np.float32(centre + support) + half), inputs)
            x = (np.arange(first, end, dtype=np.float32) - centre + half) * (one / support)
            values = np.maximum(one - np.abs(x), np.float32(0))
            total = np.float32(0)
            for value in values:
                total = np.float32(total + value)
            yield list(zip(range(first, end), values / total))

    def one_pass(pixels, outputs):
        out = np.zeros((outputs,) + pixels.shape[1:], np.float32)
        for place, inputs in enumerate(weights(len(pixels), outputs)):
            for at, weight in inputs:
                product = pixels[at].astype(np.float64) * np.float64(weight)
                out[place] = (out[place] + product).astype(np.float32)
        return out

    lines = one_pass(image.astype(np.float32).transpose(1, 0, 2), width).transpose(1, 0, 2)
    return np.clip(np.rint(one_pass(lines, height)), 0, 255).astype(np.uint8)


SIZES = [
    ((640, 480), (224, 224)),
    ((640, 480), (320, 240)),
    ((640, 480), (512, 384)),
    ((640, 480), (160, 120)),
    ((1280, 720), (224, 126)),
    ((57, 83), (224, 171)),
    ((301, 200), (300, 201)),
    ((100, 75), (33, 150)),
    ((97, 3), (13, 7)),
    ((1, 1), (5, 4)),
    ((7, 500), (7, 31)),
    ((320, 240), (320, 240)),
    ((33, 21), (640, 480)),
]
#: Pillow 13 resizes columns first in all of these but one, whose sides are just at the limit.
PILLOW_SIZES = [
    ((337, 900), (96, 256)),
    ((720, 1280), (224, 224)),
    ((30, 40), (64, 20)),
    ((48, 65), (40, 48)),
    ((48, 64), (40, 48)),
]


def cases(filters):
    for filter_name in filters:
        for size, row in SIZES + (PILLOW_SIZES if filter_name == PILLOW else []):
            for content in ["noise", "scene"]:
                yield filter_name, size, row, content


def content_of(content, width, height):
    if content == "scene":
        return scene(width, height)
    return noise(width * height * 3).reshape(height, width, 3)


def version(filter_name):
    """The library of a filter, as it is installed."""
    if filter_name == PILLOW:
        return f"Pillow {Image.__version__}"
    return f"OpenCV {cv2.__version__}" if filter_name in CV2 else f"torch {torch.__version__}"


def main(filters):
    golden = Path(__file__).with_name("filters.json")
    versions = json.loads(golden.read_text())
    results = [case for case in versions.pop("cases") if case["filter"] not in filters]
    for filter_name, (width, height), (row_width, row_height), content in cases(filters):
        image = content_of(content, width, height)
        pixels = resize(image, row_width, row_height, filter_name)
        case = dict(
            filter=filter_name,
            content=content,
            width=width,
            height=height,
            row_width=row_width,
            row_height=row_height,
        )
        if filter_name.startswith("torch"):
            plain = contracted(image, row_width, row_height, filter_name)
            difference = np.abs(plain.astype(int) - pixels.astype(int))
            case["equal"] = round(float((difference == 0).mean()), 6)
            few = (difference != 0).sum() <= max(difference.size // 1000, 1)
            assert difference.max() <= 1 and few, case
            pixels = plain
        case["crc32"] = zlib.crc32(pixels.tobytes())
        results.append(case)
        versions[filter_name] = version(filter_name)
    results.sort(key=lambda case: (PILLOWS + FILTERS).index(case["filter"]))
    lines = ",\n".join(map(json.dumps, results))
    golden.write_text('%s, "cases": [\n%s\n]}\n' % (json.dumps(versions)[:-1], lines))


def photographs():
    from skimage import data

    for name in ["astronaut", "coffee", "chelsea", "rocket"]:
        yield name, getattr(data, name)()
    rng = np.random.default_rng(1)
    for width, height in [(640, 480), (1281, 719), (57, 83), (337, 900)]:
        yield f"noise {width}x{height}", rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


ROWS = [(224, 224), (256, 192), (100, 75), (320, 240), (33, 71), (700, 500), (512, 384), (128, 300)]


def live(program):
    """Compares the program's pixels with those of the libraries. Fails if they are too far apart.

    Pillow's must be equal. It is compared with the filter of its version.

    The program is called with a filter, the width and height of an image and those of the result. It
    reads the RGB bytes of the image and writes those of the result.
    """
    failed = False
    for filter_name in FILTERS:
        equal, total, most = 0, 0, 0
        for name, image in photographs():
            image = np.ascontiguousarray(image)
            height, width = image.shape[:2]
            for row_width, row_height in ROWS:
                sizes = map(str, [width, height, row_width, row_height])
                done = subprocess.run(
                    [program, filter_name, *sizes],
                    input=image.tobytes(),
                    capture_output=True,
                    check=True,
                )
                found = np.frombuffer(done.stdout, np.uint8).reshape(row_height, row_width, 3)
                expected = resize(image, row_width, row_height, filter_name)
                difference = np.abs(found.astype(int) - expected.astype(int))
                share = (difference == 0).mean()
                least = 1 if filter_name == PILLOW else 0.999
                if difference.max() > 1 or share < least:
                    failed = True
                    size = f"{width}x{height} to {row_width}x{row_height}"
                    print(
                        f"{filter_name}: {name} {size}: {difference.max()} off, {share:.5f} equal"
                    )
                equal, total = equal + (difference == 0).sum(), total + difference.size
                most = max(most, difference.max())
        print(
            f"{version(filter_name)}, {filter_name}: {equal / total:.6f} equal, at most {most} off, {total} bytes"
        )
    sys.exit(failed)


if __name__ == "__main__":
    if "--live" in sys.argv:
        live(sys.argv[sys.argv.index("--live") + 1])
    else:
        main(sys.argv[1:] or FILTERS)
