#!/usr/bin/env python3
"""Golden rows of images, made with Pillow and NumPy: `pip install pillow==12.0.0 numpy`.

Writes image.json beside itself. The bytes of a message follow from their index (`noise`), so that
only the results are stored: their CRC-32, and the row itself where it is small.
"""

import json
import zlib
from pathlib import Path

import numpy as np
import PIL
from PIL import Image

BYTES_PER_PIXEL = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def noise(length):
    x = np.arange(length, dtype=np.uint32) * np.uint32(2654435761)
    x ^= x >> np.uint32(15)
    return ((x * np.uint32(2246822519)) >> np.uint32(24)).astype(np.uint8)


def to_pillow(data, encoding, width, height, step, color):
    """The image in the mode of the row: RGB, with blue and red swapped for bgr, or L."""
    size = BYTES_PER_PIXEL[encoding]
    lines = np.stack([data[y * step : y * step + width * size] for y in range(height)])
    pixels = lines.reshape(height, width, size)
    if encoding == "mono8":
        image = Image.fromarray(np.ascontiguousarray(pixels[:, :, 0]))
        return image if color == "mono" else image.convert("RGB")
    rgb = pixels[:, :, :3]
    if encoding.startswith("bgr"):
        rgb = rgb[:, :, ::-1]
    if color == "bgr":
        rgb = rgb[:, :, ::-1]
    image = Image.fromarray(np.ascontiguousarray(rgb))
    return image.convert("L") if color == "mono" else image


def resize(image, fit, width, height, pad_value):
    """The fitted image, by the rules of crates/ops/src/image/placement.rs."""
    w, h = image.size
    wider = w * height >= h * width
    if fit == "stretch":
        return image.resize((width, height), Image.BILINEAR)
    if fit == "crop_center":
        cw = max(h * width // height, 1) if wider else w
        ch = h if wider else max(w * height // width, 1)
        x, y = (w - cw) // 2, (h - ch) // 2
        return image.crop((x, y, x + cw, y + ch)).resize((width, height), Image.BILINEAR)
    ratio = max(w / width, h / height)
    sw, sh = max(int(w / ratio), 1), max(int(h / ratio), 1)
    canvas = Image.new(image.mode, (width, height), (pad_value,) * len(image.getbands()))
    canvas.paste(image.resize((sw, sh), Image.BILINEAR), ((width - sw) // 2, (height - sh) // 2))
    return canvas


def normalise(image, dtype, mean, std):
    values = np.asarray(image).astype(np.float32)
    values = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    channels = len(values)
    mean = np.array(mean[:channels], np.float32)[:, None, None]
    std = np.array(std[:channels], np.float32)[:, None, None]
    values = np.ascontiguousarray((values / np.float32(255) - mean) / std)
    if dtype == "f32":
        return values.astype("<f4").tobytes()
    if dtype == "f16":
        return values.astype("<f2").tobytes()
    bits = values.view(np.uint32)  # bfloat16: the upper half, to nearest with ties to even
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def cases():
    def case(encoding, size, padding, color, fit, row, dtype, pad_value=0, mean=MEAN, std=STD):
        width, height = size
        return dict(
            encoding=encoding, width=width, height=height,
            step=width * BYTES_PER_PIXEL[encoding] + padding, color=color, fit=fit,
            row_width=row[0], row_height=row[1], mean=mean, std=std, pad_value=pad_value,
            dtype=dtype,
        )  # fmt: skip

    zero_one = dict(mean=[0.0, 0.0, 0.0], std=[1.0, 1.0, 1.0])
    for encoding in BYTES_PER_PIXEL:
        for color in ["rgb", "bgr", "mono"]:
            yield case(encoding, (13, 9), 5, color, "pad_center", (7, 8), "bf16", 114)
            yield case(encoding, (61, 47), 3, color, "stretch", (24, 37), "f32")
            yield case(encoding, (57, 83), 1, color, "crop_center", (40, 31), "f16", **zero_one)
        yield case(encoding, (640, 480), 0, "rgb", "pad_center", (224, 224), "bf16")
    sizes = [1, 2, 3, 5, 16, 33, 100]
    for width in sizes:
        for height in sizes:
            for row in [(1, 1), (3, 1), (1, 4), (16, 16), (37, 35), (130, 20)]:
                fit = ["stretch", "pad_center", "crop_center"][(width + height + row[0]) % 3]
                yield case("rgb8", (width, height), 0, "rgb", fit, row, "bf16", 7, **zero_one)
    for size in [(640, 480), (1280, 720), (480, 640), (1, 500), (3, 700), (2000, 2)]:
        for fit in ["stretch", "pad_center", "crop_center"]:
            yield case("bgr8", size, 0, "rgb", fit, (224, 224), "f32", 128)


def main():
    results = []
    for case in cases():
        data = noise(case["step"] * case["height"])
        image = to_pillow(
            data, *(case[key] for key in ["encoding", "width", "height", "step", "color"])
        )
        fitted = resize(
            image, case["fit"], case["row_width"], case["row_height"], case["pad_value"]
        )
        row = normalise(fitted, case["dtype"], case["mean"], case["std"])
        case["crc32"] = zlib.crc32(row)
        if len(row) <= 512:
            case["row"] = row.hex()
        results.append(json.dumps(case))
    text = '{"pillow": "%s", "cases": [\n%s\n]}\n' % (PIL.__version__, ",\n".join(results))
    Path(__file__).with_name("image.json").write_text(text)


if __name__ == "__main__":
    main()
