#!/usr/bin/env python3
"""Golden files of compressed images, and what Pillow decodes:
`pip install pillow==11.3.0 numpy opencv-python-headless`.

    python3 tests/golden/make_compressed_golden.py

Writes tests/golden/compressed/: one file per case, and beside it NAME.pixels with the bytes of
`Image.open(file)` as `L`, `RGB` or `RGBA`. The images are gradients, edges and noise, so that upsampled
chroma and rounding show.
"""

import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

FOLDER = Path(__file__).parent / "compressed"
WIDTH, HEIGHT = 45, 31
#: Pillow's names of chroma subsampling.
JPEGS = {
    "444": {"subsampling": "4:4:4", "quality": 90},
    "422": {"subsampling": "4:2:2", "quality": 75},
    "420": {"subsampling": "4:2:0", "quality": 75},
    "coarse": {"subsampling": "4:2:0", "quality": 10},
    "progressive": {"subsampling": "4:2:0", "quality": 60, "progressive": True},
    "restarts": {"subsampling": "4:2:0", "quality": 75, "restart_marker_blocks": 2},
    "optimized": {"subsampling": "4:2:0", "quality": 95, "optimize": True},
    "rgb": {"keep_rgb": True, "quality": 80},
}


#: Chroma subsampling that Pillow does not write.
OF_OPENCV = {
    "440": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "411": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}
#: First column and line, and distances, of the seven passes of an interlaced PNG.
ADAM7 = [
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
]


def picture():
    rng = np.random.default_rng(3)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    image = np.stack([5 * x, 255 - 8 * y, 4 * x + 3 * y], axis=-1).clip(0, 255)
    image[8:20, 10:25] = (255, 0, 30)
    image[22:, 30:] = rng.integers(0, 256, (HEIGHT - 22, WIDTH - 30, 3))
    return Image.fromarray(image.astype(np.uint8))


def keep(name, image, suffix, **options):
    path = FOLDER / f"{name}.{suffix}"
    image.save(path, **options)
    keep_pixels(path)


def keep_pixels(path):
    """The pixels of a file as Pillow opens it: it does not turn them as EXIF says."""
    with Image.open(path) as opened:
        mode = {"1": "L", "P": "RGB", "CMYK": "CMYK"}.get(opened.mode, opened.mode)
        if opened.mode == "P" and "transparency" in opened.info:
            mode = "RGBA"
        pixels = opened.convert(mode).tobytes()
    path.with_name(path.name.replace(".", "_") + ".pixels").write_bytes(pixels)


def interlaced(path, image):
    """Writes RGB pixels as an interlaced PNG, with no filter."""

    def chunk(kind, data):
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    height, width, _ = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)
    lines = b""
    for left, top, right, down in ADAM7:
        for line in image[top::down, left::right]:
            lines += b"\0" + line.tobytes()
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts))
    keep_pixels(path)


def of_opencv(name, pixels, options=()):
    """Writes pixels in OpenCV's order of channels."""
    path = FOLDER / name
    assert cv2.imwrite(str(path), pixels, list(options))
    keep_pixels(path)


def more(color):
    """What only some programs write."""
    bgr = np.asarray(color)[:, :, ::-1].copy()
    for name, factor in OF_OPENCV.items():
        of_opencv(f"{name}.jpg", bgr, (cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor))
    # Of the lower bytes nothing must remain.
    deep = (bgr.astype(int) * 257 - (bgr > 0) * 200).astype(np.uint16)
    of_opencv("deep_rgb.png", deep)
    interlaced(FOLDER / "interlaced.png", np.asarray(color))
    # Turned by a quarter, says EXIF.
    exif = Image.Exif()
    exif[0x0112] = 6
    keep("exif", color, "jpg", quality=80, exif=exif)
    few = color.quantize(16)
    keep("palette_alpha", few, "png", transparency=bytes(range(0, 256, 16)))
    # The same four channels, said to be luma, chroma and black.
    cmyk = bytearray((FOLDER / "cmyk.jpg").read_bytes())
    at = cmyk.index(b"Adobe") + 11
    assert cmyk[at] == 0
    cmyk[at] = 2
    (FOLDER / "ycck.jpg").write_bytes(cmyk)


def main():
    FOLDER.mkdir(exist_ok=True)
    color = picture()
    for name, options in JPEGS.items():
        keep(name, color, "jpg", **options)
    keep("gray", color.convert("L"), "jpg", quality=80)
    keep("cmyk", color.convert("CMYK"), "jpg", quality=80)
    keep("rgb", color, "png")
    keep("rgba", color.convert("RGBA"), "png")
    keep("gray", color.convert("L"), "png")
    keep("palette", color.quantize(16), "png")
    keep("bits", color.convert("1"), "png")
    keep("gray_alpha", color.convert("LA"), "png")
    deep = Image.fromarray(np.arange(WIDTH * HEIGHT, dtype=np.uint16).reshape(HEIGHT, WIDTH) * 40)
    deep.save(FOLDER / "deep.png")
    more(color)


if __name__ == "__main__":
    main()
