"""Compressed images: the tensor equals that of the pixels that Pillow decodes."""

import io

import numpy as np
from fusion import MS, T0, stamped, streams
from in_process import InProcess
from PIL import Image as Picture
from sensor_msgs.msg import CompressedImage, Image

ROW = {"resize": {"width": 40, "height": 24, "fit": "crop_center"}}
STREAMS = streams(
    jpeg={"type": "sensor_msgs/msg/CompressedImage", "image": ROW},
    raw={"type": "sensor_msgs/msg/Image", "image": ROW},
    png={"type": "sensor_msgs/msg/CompressedImage", "image": {**ROW, "max_width_px": 200}},
    swapped={"type": "sensor_msgs/msg/CompressedImage", "image": ROW},
)


def picture(width=160, height=120):
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:height, 0:width]
    smooth = np.stack([x, 2 * y, x + y], axis=-1).clip(0, 255)
    smooth[30:60, 40:90] = rng.integers(0, 256, (30, 50, 3))
    return Picture.fromarray(smooth.astype(np.uint8))


def compressed(image, kind, words, ns=T0, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return stamped(CompressedImage, ns, format=words, data=file.getvalue())


def raw(pixels, ns=T0):
    array = np.asarray(pixels)
    height, width, _ = array.shape
    size = {"height": height, "width": width, "step": 3 * width}
    return stamped(Image, ns, encoding="rgb8", data=array.tobytes(), **size)


def test_the_tensor_is_that_of_the_pixels_that_pillow_decodes():
    fusion = InProcess({"streams": STREAMS})
    jpeg = compressed(picture(), "JPEG", "rgb8; jpeg compressed bgr8", quality=80)
    decoded = Picture.open(io.BytesIO(bytes(jpeg.data))).convert("RGB")
    fusion.send("/jpeg", jpeg)
    fusion.send("/raw", raw(decoded))
    fusion.send("/png", compressed(decoded, "PNG", "rgb8; png compressed "))
    # Red and blue of these files have changed places, and the format says so.
    mirrored = Picture.fromarray(np.asarray(decoded)[:, :, ::-1].copy())
    fusion.send("/swapped", compressed(mirrored, "PNG", "rgb8; png compressed rgb8"))
    got = fusion.tick(T0 + 10 * MS)
    for name in ("jpeg", "png", "swapped"):
        assert got[name].valid == [True] and got[name].age_ns == [10 * MS], name
        np.testing.assert_array_equal(got[name].array, got["raw"].array, err_msg=name)
    assert np.ptp(got["raw"].array) > 0.5

    # An image that cannot be decoded is dropped and counted, and the last image stays.
    cut = compressed(picture(), "JPEG", "jpeg", T0 + 11 * MS)
    cut.data = cut.data[: len(cut.data) // 2]
    assert "expected a whole file without damage" in fusion.send("/jpeg", cut).detail
    wide = fusion.send("/png", compressed(picture(201), "PNG", "png", T0 + 11 * MS))
    assert "expected at most 200 px wide (image.max_width_px), found 201" in wide.detail
    depth = stamped(CompressedImage, T0 + 11 * MS, format="16UC1; compressedDepth png", data=b"x")
    fusion.send("/swapped", depth)
    # A Bayer mosaic in a JPEG is no gray picture.
    gray = picture().convert("L")
    fusion.send("/swapped", compressed(gray, "JPEG", "bayer_rggb8; jpeg compressed ", T0 + 12 * MS))
    again = fusion.tick(T0 + 20 * MS)
    drops = (("jpeg", "malformed", 1), ("png", "too_large", 1), ("swapped", "unsupported", 2))
    for name, reason, count in drops:
        assert fusion.value(name, f"dropped.{reason}") == count
        assert again[name].age_ns == [20 * MS]
        np.testing.assert_array_equal(again[name].array, got[name].array)
