"""The videos and PNG images of a dataset: an encoder has one result for the same images."""

import contextlib
import os
import sys

import pytest
import waiting

pytest.importorskip("robocache._native", reason="there is no compiled part")
pytest.importorskip("av", exc_type=ImportError)
import numpy as np  # noqa: E402 (what is missing is said first)
from same_files import expect_same  # noqa: E402

from robocache.lerobot.video import CODECS, Encoder, PngEncoder, encoding  # noqa: E402

#: Values of MALLOC_PERTURB_: the C library fills no fresh memory, or fills it with one byte or another.
FILLED = (0, 85, 170)
#: Height and width. libx264 read behind rows of macroblocks that do not fill a vector of AVX-512, libx265 behind rows of
#: one coding tree unit.
SIZES = ((64, 96), (96, 176), (112, 256), (64, 64), (128, 64))
WRITE = "import pathlib, sys, test_video; test_video.write(pathlib.Path(sys.argv[1]))"


def moving(count, height, width):
    """Pictures of squares that move over the picture."""
    random = np.random.default_rng(3)
    squares = random.integers(0, 256, (height // 8 + 12, width // 8 + 12, 3), dtype=np.uint8)
    whole = squares.repeat(8, axis=0).repeat(8, axis=1)
    return [
        np.ascontiguousarray(whole[2 * at : 2 * at + height, 3 * at : 3 * at + width])
        for at in reversed(range(count))
    ]


def write(folder):
    """Writes the same images with each encoder of a dataset: a folder for each, and a file for each size."""
    for height, width in SIZES:
        shape, name = (height, width, 3), f"{height}x{width}"
        pictures = moving(12, height, width)
        for codec in CODECS:
            (folder / codec).mkdir(parents=True, exist_ok=True)
            encoder = Encoder(folder / codec / f"{name}.mp4", codec, 30, 20, shape)
            encoder.add(pictures)
            encoder.close()
        (folder / "png").mkdir(exist_ok=True)
        (folder / "png" / name).write_bytes(b"".join(PngEncoder(shape).add(pictures)))


@pytest.fixture(name="written", scope="module")
def written_fixture(tmp_path_factory):
    """A folder of `write` for each value of FILLED, by a process with that value."""
    folder = tmp_path_factory.mktemp("written")
    for number in FILLED:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SVT_LOG": "1"}
        environment["MALLOC_PERTURB_"] = str(number)
        command = [sys.executable, "-c", WRITE, str(folder / str(number))]
        run = waiting.run(command, env=environment)
        assert run.returncode == 0, run.stderr
    return folder


@pytest.mark.parametrize("codec", [*CODECS, "png"])
def test_an_encoder_does_not_depend_on_memory_that_nobody_wrote(written, codec):
    """On CPUs without AVX-512, libx264 never did."""
    for number in FILLED[1:]:
        expect_same(written / str(number) / codec, written / str(FILLED[0]) / codec)


def test_hevc_refuses_images_at_which_its_encoder_aborts():
    assert encoding("hevc", 30, 20, (48, 64, 3))["video.width"] == 64
    with pytest.raises(
        ValueError, match="hevc needs images of 64 or more pixels of width, found 48"
    ):
        encoding("hevc", 30, 20, (64, 48, 3))


@pytest.mark.parametrize("codec", CODECS)
def test_an_encoder_takes_no_priority(codec, tmp_path):
    """As root, libsvtav1 took the highest real-time priority for itself and for the thread that opened it."""

    def policies():
        found = {}
        for thread in map(int, os.listdir("/proc/self/task")):
            with contextlib.suppress(ProcessLookupError):
                found[thread] = os.sched_getscheduler(thread)
        return found

    before, own = policies(), os.sched_getscheduler(0)
    encoder = Encoder(tmp_path / "video.mp4", codec, 30, 20, (64, 64, 3))
    encoder.add(moving(4, 64, 64))
    during = policies()
    encoder.close()
    assert os.sched_getscheduler(0) == own
    assert codec != "libsvtav1" or len(during) > len(before), "it has threads of its own"
    assert {during[thread] for thread in set(during) - set(before)} <= {own}
