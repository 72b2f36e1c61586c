#!/usr/bin/env python3
"""Golden rows of the resize filters, made with the libraries that they are named after.

    python -m venv /tmp/golden
    /tmp/golden/bin/pip install pillow==12.0.0 numpy opencv-python-headless torch scikit-image
    /tmp/golden/bin/python tests/golden/make_filter_golden.py

It writes filters.json beside itself. The bytes of an image follow from their index (`noise`, and
`scene`: slopes and edges), so that only results are stored: per case the CRC-32 of the pixels.

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

FILTERS = [
    "pil_bilinear",
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
    """Slopes and edges, in integers: tests/filter_golden.rs makes the same."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    slope = (x * (3 + c) + y * (5 - c)) // 4 % 256
    edge = ((x // 37 + y // 23 + c) % 3 == 0) * 96
    return ((slope + edge) % 256).astype(np.uint8)


def resize(image, width, height, name):
    """The pixels of the library, of [height, width, 3] bytes."""
    if name == "pil_bilinear":
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


def cases():
    for filter_name in FILTERS:
        for size, row in SIZES:
            for content in ["noise", "scene"]:
                yield filter_name, size, row, content


def content_of(content, width, height):
    if content == "scene":
        return scene(width, height)
    return noise(width * height * 3).reshape(height, width, 3)


def main():
    results = []
    for filter_name, (width, height), (row_width, row_height), content in cases():
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
        results.append(json.dumps(case))
    versions = f'"pillow": "{Image.__version__}", "cv2": "{cv2.__version__}", '
    versions += f'"torch": "{torch.__version__}"'
    text = '{%s, "cases": [\n%s\n]}\n' % (versions, ",\n".join(results))
    Path(__file__).with_name("filters.json").write_text(text)


def photographs():
    from skimage import data

    for name in ["astronaut", "coffee", "chelsea", "rocket"]:
        yield name, getattr(data, name)()
    rng = np.random.default_rng(1)
    for width, height in [(640, 480), (1281, 719), (57, 83)]:
        yield f"noise {width}x{height}", rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


ROWS = [(224, 224), (256, 192), (100, 75), (320, 240), (33, 71), (700, 500), (512, 384), (128, 300)]


def live(program):
    """Compares the program's pixels with those of the libraries. Fails if they are too far apart.

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
                if difference.max() > 1 or share < 0.999:
                    failed = True
                    size = f"{width}x{height} to {row_width}x{row_height}"
                    print(
                        f"{filter_name}: {name} {size}: {difference.max()} off, {share:.5f} equal"
                    )
                equal, total = equal + (difference == 0).sum(), total + difference.size
                most = max(most, difference.max())
        print(f"{filter_name}: {equal / total:.6f} equal, at most {most} off, {total} bytes")
    sys.exit(failed)


if __name__ == "__main__":
    if "--live" in sys.argv:
        live(sys.argv[sys.argv.index("--live") + 1])
    else:
        main()
