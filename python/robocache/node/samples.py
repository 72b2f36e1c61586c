"""Arrays that `Pipeline.push_array` takes in place of messages."""

import numpy as np

#: Bytes of a pixel of the encodings that `push_array` takes.
_CHANNELS = {
    **dict.fromkeys(["mono8", "8UC1"], 1),
    **dict.fromkeys(["rgb8", "bgr8", "8UC3"], 3),
    **dict.fromkeys(["rgba8", "bgra8", "8UC4"], 4),
    **dict.fromkeys([f"bayer_{order}8" for order in ("rggb", "bggr", "gbrg", "grbg")], 1),
}

#: The encodings of depth images by the type of their elements, the usual one first.
_DEPTH = [(np.dtype("<u2"), ("16UC1", "mono16")), (np.dtype("<f4"), ("32FC1",))]


def as_sample(known, array, encoding, fields):
    """The array as an input takes it, its encoding and its fields. Raises if it is of another kind."""
    name, takes = known["name"], known["takes"]

    def expect(is_right, expected):
        if not is_right:
            found = f"{array.dtype} of shape {list(array.shape)}"
            raise ValueError(f"{name}: expected {expected}, found {found}")

    if takes == "vector":
        _unused(name, encoding=encoding, fields=fields)
        count = len(known["channels"])
        expect(array.dtype.kind in "fiu", "real numbers")
        expect(array.shape == (count,), f"[{count}] numbers: {', '.join(known['channels'])}")
        return np.ascontiguousarray(array, dtype=np.float64), None, None
    if takes in ("image", "depth"):
        _unused(name, fields=fields)
        array = np.ascontiguousarray(array)
        if takes == "depth":
            expect(array.ndim == 2 and array.size, "a depth image [H, W]")
            names = [names for dtype, names in _DEPTH if array.dtype == dtype]
            expect(names, "elements of uint16 or float32")
            encoding = encoding or names[0][0]
            _one_of(name, encoding, names[0])
            return array, encoding, None
        expect(array.dtype == np.uint8, "elements of uint8")
        expect(array.ndim in (2, 3) and array.size, "an image [H, W] or [H, W, C]")
        channels = array.shape[2] if array.ndim == 3 else 1
        encoding = encoding or {1: "mono8", 3: "rgb8", 4: "rgba8"}.get(channels, "rgb8")
        _one_of(name, encoding, _CHANNELS)
        expect(channels == _CHANNELS[encoding], f"{_CHANNELS[encoding]} channels of {encoding}")
        return array, encoding, None
    if takes == "points":
        _unused(name, encoding=encoding)
        fields = ["x", "y", "z"] if fields is None else list(fields)
        expect(array.dtype == np.float32, "elements of float32")
        expect(array.ndim == 2 and array.shape[1] == len(fields), f"points [N, {len(fields)}]")
        return np.ascontiguousarray(array), None, fields
    raise ValueError(f"{name}: expected an input of a vector, an image or points, found {takes}")


def _one_of(name, encoding, known):
    if encoding not in known:
        raise ValueError(f"{name}: expected encoding {', '.join(known)}, found {encoding!r}")


def _unused(name, **arguments):
    for argument, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name}: expected no {argument}, found {value!r}")
