"""RGB of the frames of a video, by the matrix and the range that the file is tagged with.

PyAV up to 16 converts every frame with BT.601 and later versions obey the tags, so both are given here. A file without
tags is BT.601 with limited range, as LeRobot writes it.
"""

from av.video.reformatter import VideoReformatter

#: The kinds of matrices by the numbers of ITU-T H.273, 8.3: the name, and the number that swscale has for it.
_MATRICES = {
    1: ("BT.709", 1),
    4: ("FCC", 4),
    5: ("BT.601", 5),
    6: ("BT.601", 5),
    7: ("SMPTE 240M", 7),
    9: ("BT.2020", 9),
}
_BT601, _BT709 = 5, 1
_UNSPECIFIED = 2
#: The ranges of FFmpeg: 16 to 235 and 0 to 255, for 8 bits.
_LIMITED, _FULL = 1, 2


class Colours:
    """Converts the frames of one video. It is of one thread."""

    def __init__(self):
        self._reformatter = VideoReformatter()

    def rgb(self, frame):
        """The pixels of a frame of PyAV: [height, width, 3] of uint8.

        Raises ValueError if its matrix is none that can be converted.
        """
        if frame.format.is_rgb:
            return frame.to_ndarray(format="rgb24")
        _, matrix = _matrix(frame)
        # PyAV up to 16 gives swscale neither if source and result have the same. RGB has no matrix, so its value is free.
        made = self._reformatter.reformat(
            frame,
            format="rgb24",
            src_colorspace=matrix,
            dst_colorspace=_BT709 if matrix == _BT601 else _BT601,
            src_color_range=_FULL if _is_full(frame) else _LIMITED,
            dst_color_range=_FULL,
        )
        return made.to_ndarray()


def named(frame):
    """The matrix and the range of a frame in words, such as `BT.709, limited range`. Raises as `Colours.rgb`."""
    if frame.format.is_rgb:
        return "RGB"
    name, _ = _matrix(frame)
    return f"{name}, {'full' if _is_full(frame) else 'limited'} range"


def _matrix(frame):
    """The name of the matrix, and swscale's number of it."""
    number = int(frame.colorspace)
    found = _MATRICES.get(6 if number == _UNSPECIFIED else number)
    if found is None:
        known = ", ".join(dict.fromkeys(name for name, _ in _MATRICES.values()))
        raise ValueError(f"expected a matrix of {known}, or no tag, found matrix {number} (H.273)")
    return found


def _is_full(frame):
    """True if the range is full: by the pixel format `yuvj...`, which has no other, or by the tag. Gray without a tag is."""
    if frame.format.name.startswith("yuvj"):
        return True
    if int(frame.color_range) in (_LIMITED, _FULL):
        return int(frame.color_range) == _FULL
    return frame.format.name.startswith("gray")
