#!/usr/bin/env python3
"""Golden files of compressed images, and what Pillow decodes: `pip install pillow==11.3.0 numpy`.

    python3 tests/golden/make_compressed_golden.py

Writes tests/golden/compressed/: one file per case, and beside it NAME.pixels with the bytes of
`Image.open(file)` as `L`, `RGB` or `RGBA`. The images are gradients, edges and noise, so that upsampled
chroma and rounding show.
"""

from pathlib import Path

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
    with Image.open(path) as opened:
        mode = {"1": "L", "P": "RGB", "CMYK": "CMYK"}.get(opened.mode, opened.mode)
        if opened.mode == "P" and "transparency" in opened.info:
            mode = "RGBA"
        pixels = opened.convert(mode).tobytes()
    (FOLDER / f"{name}_{suffix}.pixels").write_bytes(pixels)


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


if __name__ == "__main__":
    main()
