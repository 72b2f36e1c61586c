"""Windows of an imported dataset: all of its frames are seen, each at its instant, and it says its rate."""

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("av", reason="PyAV is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
from lerobot_files import CAMERA, Files, camera, frames_of, picture

import robocache

MS = 1_000_000
PERIOD = 33_333_333
LENGTHS = (60, 40)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The folder of an import, and its cache."""
    folder = tmp_path_factory.mktemp("imported")
    files = Files(folder / "dataset", "v2.1", features={CAMERA: camera(240, 320)})
    for number, length in enumerate(LENGTHS):
        pictures = [picture(at + 100 * number, 240, 320) for at in range(length)]
        files.add(frames_of(length, number), {CAMERA: (pictures, {})})
    files.finish()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache = robocache.EpisodeCache.from_dataset(folder / "dataset", folder / "data")
    return folder / "data", cache


def frame_instants(cache, episode):
    """The instants of the frames of an episode."""
    ((_, first, _),) = cache.episodes[episode]["spans"]
    return first + np.arange(LENGTHS[episode]) * PERIOD


def test_an_imported_history_is_longer_than_the_ring_of_a_node(imported):
    """A ring has 16 rows of images: 45 frames are far beyond."""
    _, cache = imported
    instants = frame_instants(cache, 0)[45:]
    config = {"top": {"history": {"steps": 4, "step_ms": 500}}}
    found = cache.windows(np.zeros(len(instants), np.int64), instants, config)["top"]
    assert found.valid.all()
    single = cache.windows([0], instants[:1] - 45 * PERIOD, {"top": {}})["top"]
    assert (found.array[0, 0] == single.array[0, 0]).all() and single.array.any()


def test_images_stay_compressed_by_default(imported):
    folder, cache = imported
    assert cache.memory["top"] == "compressed" and cache.memory["state"] == "host"
    assert robocache.EpisodeCache.load(folder / "rows.zarr").memory["top"] == "host"


def test_frames_are_on_one_grid(imported):
    """Frame k is exact, under every strategy, and no step past the episode is valid."""
    _, cache = imported
    assert cache.period_ns == PERIOD
    sampler = robocache.WindowSampler.of(cache, batch_size=1, shuffle=False)
    assert sampler.items == sum(LENGTHS)
    for episode, length in enumerate(LENGTHS):
        rows = frames_of(length, episode)["action"]
        instants = sampler.at(0, np.arange(length) + episode * LENGTHS[0])[1]
        assert (instants == frame_instants(cache, episode)).all()
        for strategy in ("hold", "nearest", "linear"):
            config = {"action": {"horizon": {"steps": 16}, "strategy": strategy}}
            found = cache.windows(np.full(length, episode), instants, config)["action"]
            for frame in range(length):
                wanted = frame + np.arange(16)
                assert (found.array[frame] == rows[np.clip(wanted, 0, length - 1)]).all()
                assert (found.is_pad[frame] == (wanted >= length)).all()


def test_a_saved_cache_keeps_what_a_dataset_says(imported, tmp_path):
    folder, cache = imported
    robocache.EpisodeCache.convert(folder / "rows.zarr", tmp_path / "cache")
    saved = robocache.EpisodeCache.load(tmp_path / "cache")
    assert saved.period_ns == PERIOD
    assert {name: means["arrivals"] for name, means in saved.streams.items()} == dict.fromkeys(
        cache.streams, False
    )


def test_a_split_is_loaded_by_its_name(imported):
    folder, _ = imported
    names = [f"episode_{number:06d}" for number in range(2)]
    (folder / "splits.json").write_text(json.dumps({"train": names[:1], "val": names[1:]}))
    for split, name in zip(("train", "val"), names, strict=True):
        cache = robocache.EpisodeCache.load(folder / "rows.zarr", split=split)
        assert [episode["name"] for episode in cache.episodes] == [name]
