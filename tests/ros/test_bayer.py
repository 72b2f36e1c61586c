"""Bayer mosaics: the colours of a plain NumPy interpolation."""

from itertools import product

import numpy as np
from fusion import MS, T0, stamped, streams
from in_process import InProcess
from sensor_msgs.msg import Image

WIDTH, HEIGHT = 22, 15
STREAMS = streams(
    camera={
        "type": "sensor_msgs/msg/Image",
        # The row has the size of the image, so that nothing is resized.
        "image": {"resize": {"width": WIDTH, "height": HEIGHT}},
    }
)
#: The colours of the first two pixels, then those of the two below.
PATTERNS = ["rggb", "bggr", "gbrg", "grbg"]


def colours(mosaic, pattern):
    """RGB `[height, width, 3]`: a missing colour is the mean of the nearest pixels that have it.

    Means of two or four are rounded half up; the border repeats the pixels inside of it.
    """
    height, width = mosaic.shape
    out = np.zeros((height, width, 3), int)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            around = {}
            for dy in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    colour = pattern[2 * ((y + dy) % 2) + (x + dx) % 2]
                    distance = abs(dy) + abs(dx)
                    around.setdefault(colour, []).append((distance, int(mosaic[y + dy, x + dx])))
            for channel, colour in enumerate("rgb"):
                near = min(distance for distance, _ in around[colour])
                values = [value for distance, value in around[colour] if distance == near]
                out[y, x, channel] = (2 * sum(values) + len(values)) // (2 * len(values))
    return np.pad(out[1:-1, 1:-1], ((1, 1), (1, 1), (0, 0)), "edge")


def message(ns, mosaic, encoding, padding=0):
    lines = np.ascontiguousarray(mosaic).view(np.uint8)
    data = np.hstack([lines, np.full((len(mosaic), padding), 0x5A, np.uint8)])
    size = {"height": len(mosaic), "width": mosaic.shape[1], "step": data.shape[1]}
    order = {"is_bigendian": int(mosaic.dtype.str[0] == ">")}
    return stamped(Image, ns, encoding=encoding, data=data.tobytes(), **size, **order)


def test_mosaics_have_the_colours_of_their_neighbours_and_bad_ones_are_dropped():
    fusion = InProcess({"streams": STREAMS})
    random = np.random.default_rng(9)
    now = T0
    for padding, pattern in enumerate(PATTERNS):
        mosaic = random.integers(0, 256, (HEIGHT, WIDTH), np.uint8)
        fusion.send("/camera", message(now, mosaic, f"bayer_{pattern}8", padding))
        got = fusion.tick(now)["camera"]
        expected = colours(mosaic, pattern).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
        assert got.valid == [True]
        np.testing.assert_array_equal(got.array[0], expected, pattern)
        now += 10 * MS

    # Numbers of 16 bits are scaled by 255/65535 after that.
    for padding, (order, pattern) in enumerate(product("<>", PATTERNS)):
        mosaic = random.integers(0, 65536, (HEIGHT, WIDTH), np.uint16).astype(f"{order}u2")
        fusion.send("/camera", message(now, mosaic, f"bayer_{pattern}16", padding))
        got = fusion.tick(now)["camera"]
        levels = (colours(mosaic, pattern) + 128) // 257
        expected = levels.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
        np.testing.assert_array_equal(got.array[0], expected, f"{pattern} {order}")
        now += 10 * MS

    mosaic = mosaic.astype(np.uint8)
    cut = message(now, mosaic, "bayer_rggb8")
    cut.data = cut.data[:-1]
    small = message(now, mosaic[:2], "bayer_rggb8")
    wide = message(now, mosaic, "bayer_rggb12")
    bad = [(cut, "malformed"), (small, "malformed"), (wide, "unsupported")]
    fusion.check_drops("/camera", bad)
    after = fusion.tick(now)["camera"]
    assert after.age_ns == [10 * MS]
    np.testing.assert_array_equal(after.array[0], expected)
