"""Frames of a video, decoded with PyAV."""

import av

from .video_colours import Colours, named

#: What a file may be, and where it may read. FFmpeg also knows playlists (HLS, DASH, concat), which name other files.
_OPTIONS = {"format_whitelist": "mov,mp4,matroska,webm", "protocol_whitelist": "file"}


def frames(path, seconds, size, *, tolerance_s, threads=1):
    """Yields the pixels of a video's frames at these instants: [height, width, 3] of uint8, RGB by the tags of the file.

    A frame is the one whose presentation stamp is nearest to the instant, as in LeRobot. Decoding begins at the
    keyframe before the first instant. Memory holds two frames.

    Args:
        path: of the video.
        seconds: increasing instants in the file [s].
        size: height and width that every frame must have.
        tolerance_s: how far a frame may be from its instant.
        threads: of the decoder; 0 for as many as it likes.

    Raises:
        ValueError: the video is damaged, lacks a frame, or a frame has another size or an unknown matrix.
        OSError: it cannot be read.
    """
    colours = Colours()
    with _opened(path) as container:
        stream = _video(path, container, threads)
        decoded = _from(path, container, stream, seconds[0] + tolerance_s)
        before, after = None, next(decoded, None)
        for at in seconds:
            while after is not None and after.time < at:
                before, after = after, next(decoded, None)
            near = _nearest(before, after, at)
            if near is None or abs(near.time - at) > tolerance_s:
                raise ValueError(_missing(path, at, tolerance_s, before, after))
            if (near.height, near.width) != tuple(size):
                raise ValueError(
                    f"{path}: expected frames of {size[0]} x {size[1]} as in meta/info.json, found "
                    f"{near.height} x {near.width} at {near.time:.3f} s"
                )
            yield _naming(path, colours.rgb, near)


def colours_at(path, second):
    """The matrix and the range of a video's frame at an instant [s], such as `BT.709, limited range`. Raises as `frames`."""
    with _opened(path) as container:
        frame = next(_from(path, container, _video(path, container, 1), second), None)
        if frame is None:
            raise ValueError(f"{path}: expected a video, found no frame: it may be truncated")
        return _naming(path, named, frame)


def _naming(path, call, frame):
    """What a function says of a frame. Its errors name the file."""
    try:
        return call(frame)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _video(path, container, threads):
    """The video stream of an open file. Its decoder has this many threads."""
    if not container.streams.video:
        raise ValueError(f"{path}: expected a video, found none in the file")
    stream = container.streams.video[0]
    stream.thread_type = "NONE" if threads == 1 else "AUTO"
    stream.codec_context.thread_count = threads
    return stream


def _opened(path):
    try:
        return av.open(str(path), options=_OPTIONS)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: expected a video, found no such file") from None
    except av.FFmpegError as error:
        raise ValueError(
            f"{path}: expected a video, found a file that FFmpeg cannot read as MP4 or Matroska "
            f"({error.strerror}): it may be truncated"
        ) from None


def _from(path, container, stream, first):
    """Yields decoded frames in the order of their stamps, from one at or before an instant [s] on, if there is one."""
    begin = float((stream.start_time or 0) * stream.time_base)
    if first <= begin:
        yield from _decoded(path, container, stream)
        return
    for target in (first, begin):
        container.seek(int(target / stream.time_base), stream=stream)
        decoded = _decoded(path, container, stream)
        frame = next(decoded, None)
        # The first frames after a keyframe may need frames before it, and are not decoded. Then decode all.
        if target == begin or (frame is not None and frame.time <= first):
            break
    if frame is not None:
        yield frame
        yield from decoded


def _decoded(path, container, stream):
    """Yields all frames from here on."""
    last = None
    try:
        for frame in container.decode(stream):
            if frame.time is None:
                raise ValueError(f"{path}: expected a stamp for each frame, found none")
            if frame.is_corrupt:
                raise ValueError(
                    f"{path}: expected whole frames, found damage at {frame.time:.3f} s"
                )
            last = frame.time
            yield frame
    except av.FFmpegError as error:
        where = "at its begin" if last is None else f"after {last:.3f} s"
        raise ValueError(
            f"{path}: expected a video that can be decoded, found damage {where} ({error.strerror})"
        ) from None


def _nearest(before, after, at):
    if before is None or after is None:
        return before if after is None else after
    return before if at - before.time <= after.time - at else after


def _missing(path, at, tolerance_s, before, after):
    """What an error says of a frame that is not there."""
    if before is not None and after is not None:
        found = f"frames at {before.time:.6f} s and {after.time:.6f} s around it"
    elif after is not None:
        found = f"the first one at {after.time:.6f} s"
    elif before is not None:
        found = f"the last one at {before.time:.6f} s: the video may be truncated"
    else:
        found = "no frame: the video may be truncated"
    return (
        f"{path}: expected a frame within {tolerance_s * 1e3:g} ms of {at:.6f} s, where the dataset has a row, "
        f"found {found}"
    )
