"""Videos and PNG images of a LeRobot dataset, by PyAV."""

import contextlib
import itertools
import os
from fractions import Fraction

import av

#: Each second frame can be decoded by itself, so a loader may begin anywhere.
_KEYFRAMES = 2
#: LeRobot's preset of libsvtav1: the fast end.
_SVTAV1_PRESET = 12
#: The least width of images for hevc [pixels].
_HEVC_WIDTH = 64
#: PNG: a filter by row, and little effort of zlib. Its usual effort takes seven times as long, and saves 6 % of the size.
_PNG = {"pred": "mixed", "compression_level": "1"}
#: What info.json calls the codecs, and the greatest `crf` of each.
CODECS = {"libsvtav1": ("av1", 63), "h264": ("h264", 51), "hevc": ("hevc", 51)}


def check(codec, crf):
    """Raises ValueError if there is no such codec, or it has no such quality."""
    if codec not in CODECS:
        raise ValueError(f"--codec: expected {', '.join(CODECS)}, found {codec!r}")
    most = CODECS[codec][1]
    if not 0 <= crf <= most:
        raise ValueError(f"--crf: expected 0 to {most} for {codec}, found {crf}")


def encoding(codec, crf, fps, shape):
    """What info.json says of a video of images of this shape [height, width, 3].

    Raises ValueError if the codec cannot encode them.
    """
    height, width, channels = shape
    # libx265 (of PyAV 15.1) writes behind its memory at widths of 34 to 48 pixels, and aborts. At 16 pixels its bytes
    # depend on memory that nobody wrote.
    if codec == "hevc" and width < _HEVC_WIDTH:
        raise ValueError(
            f"--codec: hevc needs images of {_HEVC_WIDTH} or more pixels of width, found {width}: take h264"
        )
    found = {
        "height": height,
        "width": width,
        "codec": CODECS[codec][0],
        "pix_fmt": "yuv420p",
        "fps": fps,
        "channels": channels,
        "g": _KEYFRAMES,
        "crf": crf,
        "preset": _SVTAV1_PRESET if codec == "libsvtav1" else None,
        "fast_decode": 0,
        "extra_options": {},
        "video_backend": "pyav",
    }
    found = {f"video.{name}": value for name, value in found.items()}
    return {**found, "has_audio": False, "is_depth_map": False}


def _options(codec, crf, shape):
    """Options of an encoder with which the same images have the same bytes: it reads no memory that nobody wrote."""
    width = shape[1]
    options = {"g": str(_KEYFRAMES), "crf": str(crf)}
    if codec == "libsvtav1":
        options["preset"] = str(_SVTAV1_PRESET)
    if codec == "h264":
        # With AVX-512, libx264's mbtree takes eight macroblocks at once. If the width is no multiple of 128 pixels, it
        # reads behind the last row, and the first packets depend on what is there. mbtree lowers the quality of what no
        # later image needs; between two key frames it saves 1 to 4 % at the same PSNR. Without it, the same `crf` means
        # more quality: 33 is what 30 was. `bframes=0` only makes it rare.
        options["mbtree"] = "0"
    if codec == "hevc":
        options["x265-params"] = "log-level=error"
        # libx265 does the same in an image that is one coding tree unit wide. Its units are of 64 pixels.
        if width == _HEVC_WIDTH:
            options["x265-params"] += f":ctu={_HEVC_WIDTH // 2}"
    return options


def open_encoder(context):
    """Opens an encoder, and keeps the priority of this thread and of the encoder's own threads.

    As root, libsvtav1 gives its threads and the one that opens it the highest real-time priority. A live robot on the
    same machine would get no processor then.
    """
    before = {int(thread) for thread in os.listdir("/proc/self/task")}
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    context.open()
    os.sched_setscheduler(0, policy, parameters)
    for thread in {int(thread) for thread in os.listdir("/proc/self/task")} - before:
        # Another thread may have started it, and it may have ended.
        with contextlib.suppress(ProcessLookupError):
            if os.sched_getscheduler(thread) == os.SCHED_FIFO:
                os.sched_setscheduler(thread, policy, parameters)


class Encoder:
    """Writes one episode's video. Close it, and then give its file to `VideoFiles.append`."""

    def __init__(self, path, codec, crf, fps, shape):
        self._file = av.open(str(path), "w")
        self._stream = self._file.add_stream(codec, fps, options=_options(codec, crf, shape))
        self._stream.height, self._stream.width = shape[:2]
        self._stream.pix_fmt = "yuv420p"
        open_encoder(self._stream.codec_context)

    def add(self, images):
        """Encodes images [image, height, width, 3]."""
        for image in images:
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            self._file.mux(self._stream.encode(frame))

    def close(self):
        """Completes the file."""
        self._file.mux(self._stream.encode())
        self._file.close()


class PngEncoder:
    """Makes PNG files of images of one size."""

    def __init__(self, shape):
        self._codec = av.CodecContext.create("png", "w")
        self._codec.height, self._codec.width = shape[:2]
        self._codec.pix_fmt, self._codec.time_base = "rgb24", Fraction(1)
        self._codec.options = _PNG
        self._codec.thread_count = 1  # so that each image comes back at once

    def add(self, images):
        """The bytes of a file for each image [height, width, 3]."""
        files = []
        for image in images:
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            files += [bytes(packet) for packet in self._codec.encode(frame)]
        return files


class VideoFiles:
    """The video files of a column: each has whole episodes, one after the other. Nothing is encoded again."""

    def __init__(self, path_of, fps, rolling):
        """
        Args:
            path_of: a function of (chunk, file) that returns the path of a file.
            fps: frames per second.
            rolling: a `Rolling`, which says when another file begins.
        """
        self._path_of, self._fps, self._rolling = path_of, fps, rolling
        self._file = self._stream = self._header = None
        self._frames = self._bytes = 0

    def append(self, source, packets, frames):
        """Adds an episode: packets of the stream `source`.

        Returns where it is: chunk_index, file_index, from_timestamp and to_timestamp.
        """
        # A decoder reads all packets of a file by the header of its first episode. Another version of an encoder may
        # write another one.
        header = source.codec_context.extradata, source.time_base
        is_other = self._file is not None and header != self._header
        if self._rolling.begins(self._frames, self._bytes, frames, must=is_other):
            self.close()
            self._open(source)
            self._header = header
        step = int(1 / (self._fps * source.time_base))
        start = self._frames * step
        number, moved = 0, None
        for number, packet in enumerate(packets, start=1):
            # The first packet of an episode is its first image.
            moved = start - packet.pts if moved is None else moved
            packet.pts, packet.dts = packet.pts + moved, packet.dts + moved
            self._bytes += packet.size
            packet.stream = self._stream
            self._file.mux(packet)
        if number != frames:
            raise RuntimeError(f"expected a video of {frames} images, found {number}")
        first, self._frames = self._frames, self._frames + frames
        chunk, file = self._rolling.place
        return {
            "chunk_index": chunk,
            "file_index": file,
            "from_timestamp": first / self._fps,
            "to_timestamp": self._frames / self._fps,
        }

    def close(self):
        """Completes the newest file."""
        if self._file is not None:
            self._file.close()
        self._file, self._frames, self._bytes = None, 0, 0

    def _open(self, source):
        path = self._path_of(*self._rolling.place)
        path.parent.mkdir(parents=True, exist_ok=True)
        # The index comes first, so that a loader need not seek to the end. The rate of bits would be that of `source`.
        options = {"movflags": "faststart", "write_btrt": "0"}
        self._file = av.open(str(path), "w", options=options)
        self._stream = self._file.add_stream_from_template(source, opaque=True)
        self._stream.time_base = source.time_base


@contextlib.contextmanager
def opened(path):
    """Gives the stream of a video file, and its packets in the order of decoding."""
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        # A packet without a time ends the file.
        yield stream, (packet for packet in file.demux(stream) if packet.dts is not None)


def episodes_of(path, lengths):
    """Yields (stream, packets) for each episode of a video file. `lengths` has their numbers of images."""
    with opened(path) as (stream, packets):
        for length in lengths:
            yield stream, itertools.islice(packets, length)
