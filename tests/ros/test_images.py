"""Images of every encoding, with the unusual layouts of some drivers, and their tensors."""

import numpy as np
from fusion import MS, T0, f32, stamped, start_fusion, streams
from PIL import Image as Pillow
from sensor_msgs.msg import Image

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
WIDTH, HEIGHT = 24, 16
SIZE = {"width": WIDTH, "height": HEIGHT}
IMAGES = streams(
    padded={
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "image": {"resize": SIZE, "mean": MEAN, "std": STD, "pad_value": 114},
    },
    stretched={
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "image": {"resize": {**SIZE, "fit": "stretch"}, "color": "bgr"},
    },
    cropped={
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "dtype": "f16",
        "image": {
            "resize": {**SIZE, "fit": "crop_center"},
            "color": "mono",
            "mean": [0.5],
            "std": [0.25],
        },
    },
)
#: The channels of an RGBA picture that each encoding has, in order.
ENCODINGS = {"rgb8": "RGB", "bgr8": "BGR", "rgba8": "RGBA", "bgra8": "BGRA", "mono8": "L"}


def image_message(ns, picture, encoding, padding, seed=0):
    """A picture (Pillow, RGB or L) as a message, with garbage after every line and in alpha."""
    random = np.random.default_rng(seed)
    if encoding == "mono8":
        pixels = np.asarray(picture)[..., None]
    else:
        rgba = np.dstack([np.asarray(picture), random.integers(0, 256, picture.size[::-1])])
        pixels = rgba[..., ["RGBA".index(c) for c in ENCODINGS[encoding]]]
    lines = pixels.astype(np.uint8).reshape(picture.height, -1)
    garbage = random.integers(0, 256, (picture.height, padding), np.uint8)
    data = np.hstack([lines, garbage])
    return stamped(
        Image,
        ns,
        width=picture.width,
        height=picture.height,
        encoding=encoding,
        is_bigendian=1,  # must have no effect on bytes
        step=data.shape[1],
        data=data.tobytes(),
    )


def channels(picture):
    """Pixels of a picture as [3 or 1, height, width]."""
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def normalised(pixels, mean, std):
    scaled = pixels.astype(np.float32) / np.float32(255)
    return (scaled - f32(mean)[:, None, None]) / f32(std)[:, None, None]


def expected_images(picture):
    """The rows of the three streams, computed with Pillow."""
    resize = Pillow.Resampling.BILINEAR
    width, height = picture.size
    if width * HEIGHT >= height * WIDTH:
        inner = (WIDTH, max(1, height * WIDTH // width))
        part = max(1, height * WIDTH // HEIGHT)
        box = ((width - part) // 2, 0, (width - part) // 2 + part, height)
    else:
        inner = (max(1, width * HEIGHT // height), HEIGHT)
        part = max(1, width * HEIGHT // WIDTH)
        box = (0, (height - part) // 2, width, (height - part) // 2 + part)
    padded = np.full((3, HEIGHT, WIDTH), 114, np.uint8)
    left, top = (WIDTH - inner[0]) // 2, (HEIGHT - inner[1]) // 2
    padded[:, top : top + inner[1], left : left + inner[0]] = channels(
        picture.resize(inner, resize)
    )
    stretched = channels(picture.resize((WIDTH, HEIGHT), resize))
    stretched = np.broadcast_to(stretched, (3, HEIGHT, WIDTH))[::-1]
    # The part is cut out first: no pixel outside of it counts.
    cropped = channels(picture.convert("L").crop(box).resize((WIDTH, HEIGHT), resize))
    return {
        "padded": normalised(padded, MEAN, STD),
        "stretched": normalised(stretched, [0, 0, 0], [1, 1, 1]),
        "cropped": normalised(cropped, [0.5], [0.25]).astype(np.float16),
    }


def test_images_of_all_encodings_equal_those_of_pillow(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": IMAGES}).warm_up()
    random = np.random.default_rng(7)
    for tick, encoding in enumerate(ENCODINGS):
        # Wide and high pictures, whose sides are no multiples of the row's sides.
        width, height = [(61, 37), (31, 53)][tick % 2]
        pixels = random.integers(0, 256, (height, width, 3), np.uint8)
        picture = Pillow.fromarray(pixels)
        if encoding == "mono8":
            picture = picture.convert("L")
        now = T0 + 10 * tick * MS
        fusion.send("/camera", image_message(now, picture, encoding, padding=3 + tick))
        got = fusion.tick(now)
        for name, row in expected_images(picture).items():
            assert got[name].valid == [True], (encoding, name)
            np.testing.assert_array_equal(got[name].array[0], row, err_msg=f"{encoding} {name}")
