"""The colours of videos: by the matrix and the range that a file is tagged with, whatever PyAV does by itself."""

import hashlib
import json
import platform

import lerobot_files
import numpy as np
import pytest
from lerobot_files import CAMERA, FEATURES, Files, camera, encode, frames_of

pytest.importorskip("robocache._native", reason="there is no compiled part")
av = pytest.importorskip("av", exc_type=ImportError)
import robocache  # noqa: E402 (what is missing is said first)
from robocache import importing  # noqa: E402
from robocache.datasets.lerobot import Dataset  # noqa: E402
from robocache.datasets.lerobot_frames import colours_at, frames  # noqa: E402
from robocache.datasets.video_colours import Colours, named  # noqa: E402

#: The weights of red and blue in luma (ITU-R BT.601-7 2.5.1, BT.709-6 3.2, BT.2020-2 table 4, SMPTE 240M; FCC: 47 CFR
#: 73.682 of 1953), by the number of the matrix in ITU-T H.273.
WEIGHTS = {
    None: (0.299, 0.114),
    1: (0.2126, 0.0722),
    4: (0.30, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
}
NAMES = {None: "BT.601", 1: "BT.709", 4: "FCC", 5: "BT.601", 6: "BT.601", 7: "SMPTE 240M"}
LIMITED, FULL = 1, 2
#: The digests of the picture of `test_the_bits_of_colours_stay`.
GOLDEN = {
    "untagged": "f48e41efe2214b2a",
    "BT.709": "de78bc7f11d505f1",
    "full range": "0757c376b3e3c51d",
}
#: Luma and both chromas of patches.
PATCHES = np.array(
    [
        (120, 90, 200),
        (60, 150, 110),
        (200, 128, 128),
        (90, 100, 90),
        (150, 160, 140),
        (40, 120, 130),
    ]
)
HEIGHT, WIDTH = 32, 96


def planes(patches=PATCHES):
    """A picture of patches, 16 pixels wide, as PyAV has yuv420p: [3/2 height, width]."""
    wide = patches.repeat(16, axis=0)
    narrow = patches.repeat(8, axis=0)
    luma = np.broadcast_to(wide[:, 0], (HEIGHT, WIDTH))
    chromas = [np.broadcast_to(narrow[:, at], (HEIGHT // 2, WIDTH // 2)) for at in (1, 2)]
    return np.concatenate([luma, *(c.reshape(-1, WIDTH) for c in chromas)]).astype(np.uint8)


def formula(matrix, is_full, patches=PATCHES):
    """RGB of patches: [patches, 3]."""
    red, blue = WEIGHTS[matrix]
    green = 1 - red - blue
    values = patches.astype(float)
    luma = values[:, 0] / 255 if is_full else (values[:, 0] - 16) / 219
    cb, cr = ((values[:, at] - 128) / (255 if is_full else 224) for at in (1, 2))
    r, b = luma + 2 * (1 - red) * cr, luma + 2 * (1 - blue) * cb
    g = (luma - red * r - blue * b) / green
    return np.clip(np.stack([r, g, b], axis=1), 0, 1) * 255


def in_memory(matrix, color_range, pixels=None):
    frame = av.VideoFrame.from_ndarray(planes() if pixels is None else pixels, format="yuv420p")
    lerobot_files._tag(frame, (matrix, color_range))
    return frame


@pytest.mark.parametrize("color_range", [None, LIMITED, FULL])
@pytest.mark.parametrize("matrix", WEIGHTS)
@pytest.mark.parametrize("codec", ["libx264", "libsvtav1"])
def test_a_file_has_the_colours_of_its_tags(tmp_path, codec, matrix, color_range):
    path = tmp_path / "video.mp4"
    options = {"libx264": {"qp": "0"}, "libsvtav1": {"crf": "1"}}[codec]
    encode(path, [planes()] * 3, 30, codec, options, tags=(matrix, color_range))
    (pixels, *_) = frames(path, [0.0, 1 / 30], (HEIGHT, WIDTH), tolerance_s=1e-3)
    expected = formula(matrix, color_range == FULL)
    assert np.abs(pixels[8, 8::16] - expected).max() < 3
    name = NAMES.get(matrix, "BT.2020")
    is_full = "full" if color_range == FULL else "limited"
    assert colours_at(path, 0.0) == f"{name}, {is_full} range"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="swscale rounds otherwise there")
@pytest.mark.parametrize(
    ("tags", "digest"),
    [
        ((None, None), "untagged"),
        ((1, LIMITED), "BT.709"),
        ((6, LIMITED), "untagged"),
        ((5, None), "untagged"),
        ((None, FULL), "full range"),
    ],
)
def test_the_bits_of_colours_stay(tags, digest):
    """Those of PyAV 15 to 18; without tags, those of every version that converts by itself."""
    y, x = np.mgrid[0:48, 0:64]
    smooth = 128 + 90 * np.sin(x / 7 + y / 9) + 30 * np.cos(y / 5)
    frame = in_memory(*tags, smooth.clip(0, 255).astype(np.uint8))
    colours = Colours()
    first, again = colours.rgb(frame), colours.rgb(frame)
    assert np.array_equal(first, again)
    assert hashlib.sha256(first.tobytes()).hexdigest()[:16] == GOLDEN[digest]


def test_frames_without_a_matrix_are_as_they_are():
    pixels = np.arange(8 * 16 * 3, dtype=np.uint8).reshape(8, 16, 3)
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="gbrp")
    assert np.array_equal(Colours().rgb(frame), pixels) and named(frame) == "RGB"
    gray = av.VideoFrame.from_ndarray(pixels[:, :, 0].copy(), format="gray")
    assert np.array_equal(Colours().rgb(gray)[:, :, 1], pixels[:, :, 0])


def test_an_unknown_matrix_is_an_error(tmp_path):
    for matrix in (0, 8, 10, 14):
        with pytest.raises(
            ValueError, match=f"expected a matrix of BT.709, .*found matrix {matrix}"
        ):
            Colours().rgb(in_memory(matrix, LIMITED))
    path = encode(tmp_path / "v.mp4", [planes()] * 3, 30, "libsvtav1", {"crf": "1"}, tags=(8, 1))
    with pytest.raises(ValueError, match=r"v\.mp4: expected a matrix of BT.709.*found matrix 8"):
        next(frames(path, [0.0], (HEIGHT, WIDTH), tolerance_s=1e-3))
    with pytest.raises(ValueError, match=r"v\.mp4: expected a matrix"):
        colours_at(path, 0.0)


def tagged(root, all_tags):
    """A dataset with an episode for each pair of tags."""
    files = Files(root, "v2.1", features={**FEATURES, CAMERA: camera(HEIGHT, WIDTH)})
    for tags in all_tags:
        more = {"tags": tags, "options": {"qp": "0"}}
        files.add(frames_of(4), {CAMERA: ([planes()] * 4, more)})
    return files.finish()


def test_a_store_and_its_contract_say_how_colours_were_made(tmp_path):
    root = tagged(tmp_path / "dataset", [(1, LIMITED), (None, None), (6, FULL)])
    cache = robocache.EpisodeCache.from_dataset(root, tmp_path / "out")
    assert [episode["colours"] for episode in cache.episodes] == [
        {CAMERA: "BT.709, limited range"},
        {CAMERA: "BT.601, limited range"},
        {CAMERA: "BT.601, full range"},
    ]
    windows = cache.windows([0, 1, 2], [33_333_333] * 3)["top"].array[:, 0]
    for found, (matrix, is_full) in zip(windows, [(1, False), (6, False), (6, True)], strict=True):
        assert np.abs(found[:, 8, 8::16].T - formula(matrix, is_full)).max() < 3
    contract = cache.contract()
    assert "matrix and range by its tags" in contract.value["streams"]["top"]["decoded"]
    assert "decoded" not in contract.value["streams"]["state"]
    # A camera is served by messages, which are RGB already.
    served = json.loads(contract.json)
    del served["streams"]["top"]["decoded"]
    served = robocache.Contract(json.dumps(served))
    assert contract.differences(served) == served.differences(contract) == []
    cache.save(tmp_path / "saved")
    saved = robocache.EpisodeCache.load(tmp_path / "saved")
    assert saved.episodes == cache.episodes and saved.contract() == contract


def test_another_library_makes_other_rows(tmp_path, monkeypatch):
    root = tagged(tmp_path / "dataset", [(1, LIMITED)])
    (before,) = importing.recordings(Dataset(root))
    monkeypatch.setitem(av.library_versions, "libswscale", (99, 0, 0))
    (after,) = importing.recordings(Dataset(root))
    assert before.made_of != after.made_of


def test_a_playlist_is_no_video(tmp_path):
    """FFmpeg would read the files that it names."""
    secret = encode(tmp_path / "secret.mp4", [planes()] * 3, 30, tags=(None, None))
    path = tmp_path / "video.mp4"
    path.write_text(f"ffconcat version 1.0\nfile {secret.name}\n")
    with pytest.raises(ValueError, match=r"video\.mp4: expected a video, found a file that FFmpeg"):
        next(frames(path, [0.0], (HEIGHT, WIDTH), tolerance_s=1e-3))
    assert next(frames(secret, [0.0], (HEIGHT, WIDTH), tolerance_s=1e-3)).shape == (
        HEIGHT,
        WIDTH,
        3,
    )
