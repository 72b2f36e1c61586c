"""What a mapping says of values: images of one colour, images that are turned, grippers that say how they change."""

import numpy as np

#: Above this a relative gripper closes, below its negative it opens.
_THRESHOLD = 0.1


def oriented(pixels, orient):
    """Images [..., height, width, 3], turned as `orient` says; as they are if it is None."""
    if orient is None:
        return pixels
    if orient == "rotate_180":
        return pixels[..., ::-1, ::-1, :]
    return pixels[..., ::-1, :, :] if orient == "flip_vertical" else pixels[..., ::-1, :]


def absolute_gripper(changes):
    """What a gripper is to be in each frame, 0 closed and 1 open, from how it changes [frames].

    Above 0.1 it closes, below -0.1 it opens, otherwise it stays. Before its first change it is the opposite of what that
    change makes of it; without any it is open.
    """
    changes = np.asarray(changes, np.float64)
    moves = np.flatnonzero(np.abs(changes) > _THRESHOLD)
    if not len(moves):
        return np.ones(len(changes))
    after = (changes[moves] < 0).astype(np.float64)
    newest = np.searchsorted(moves, np.arange(len(changes)), side="right") - 1
    return np.where(newest >= 0, after[np.maximum(newest, 0)], 1 - after[0])


def is_blank(pixels):
    """Whether an image [height, width, 3] has one colour."""
    return bool((pixels == pixels[:1, :1]).all())


def is_blank_picture(picture, size):
    """Whether the bytes of a PNG or a JPEG are an image of one colour. Damage is none: its reader says so.

    Args:
        picture: the bytes.
        size: height and width.
    """
    # A block of 8 x 8 pixels of one colour takes two bytes or fewer, so most images need no decoder.
    if len(picture) > 2048 + size[0] * size[1] // 16:
        return False
    import av

    kind = "png" if picture[:4] == b"\x89PNG" else "mjpeg"
    try:
        decoder = av.CodecContext.create(kind, "r")
        frames = [*decoder.decode(av.Packet(picture)), *decoder.decode(None)]
    except av.error.FFmpegError:
        return False
    return bool(frames) and is_blank(frames[0].to_ndarray(format="rgb24"))
