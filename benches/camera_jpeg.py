"""Writes a JPEG of 1920x1080, as a camera sends it: `python3 benches/camera_jpeg.py FILE`.

It is a mosaic of the photographs that scikit-image carries, at their own resolution, so that it has
the detail of a photograph. Needs Pillow and scikit-image from PyPI.
"""

import sys

import numpy as np
from PIL import Image
from skimage import data

WIDTH, HEIGHT = 1920, 1080
#: The quality that camera drivers usually set.
QUALITY = 80


def mosaic():
    photographs = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()]
    canvas = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    y, number = 0, 0
    while y < HEIGHT:
        x, line = 0, HEIGHT
        while x < WIDTH:
            tile = photographs[number % len(photographs)][: HEIGHT - y, : WIDTH - x]
            height, width = tile.shape[:2]
            canvas[y : y + height, x : x + width] = tile
            x, line, number = x + width, min(line, height), number + 1
        y += line
    return Image.fromarray(canvas)


if __name__ == "__main__":
    mosaic().save(sys.argv[1], quality=QUALITY, subsampling="4:2:0")
