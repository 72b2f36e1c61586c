"""`robocache import` of a dataset that TensorFlow Datasets wrote: values are those that tfds reads."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow_datasets")
sys.path.append(str(Path(__file__).parent))
import tensorflow_datasets as tfds
from rlds_builders import bridge

import robocache
from robocache.datasets import importing

pytestmark = pytest.mark.timeout(600)
LENGTHS = (6, 4, 9, 5)
PERIOD_NS = 200_000_000


@pytest.fixture(name="root", scope="module")
def root_fixture(tmp_path_factory):
    return Path(os.fspath(bridge.write(tmp_path_factory.mktemp("tfds"), LENGTHS)))


def episodes(root, split, **decoders):
    """The steps of each episode as tfds has them, in the order of the files."""
    builder = tfds.builder_from_directory(str(root))
    one_by_one = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    found = builder.as_dataset(split=split, read_config=one_by_one, **decoders)
    return [list(tfds.as_numpy(episode["steps"])) for episode in found]


def test_values_are_those_of_tfds(root, tmp_path):
    cache = robocache.EpisodeCache.from_dataset(root, tmp_path / "out", mapping="bridge")
    expected = [*episodes(root, "train"), *episodes(root, "val")]
    assert sorted(map(len, expected)) == sorted(LENGTHS) and len(cache.episodes) == 4
    splits = json.loads((tmp_path / "out/splits.json").read_text())
    assert [len(splits[name]) for name in ("train", "val")] == [3, 1]
    worst = 0
    for number, steps in enumerate(expected):
        assert cache.episodes[number]["task"] == steps[0]["language_instruction"].decode()
        instants = PERIOD_NS * np.arange(1, len(steps) + 1)
        windows = cache.windows([number] * len(steps), instants)
        assert all(windows[name].valid.all() for name in windows)
        for at, step in enumerate(steps):
            for stream, value in {
                "state": step["observation"]["state"],
                "action": step["action"],
            }.items():
                assert np.array_equal(windows[stream].array[at, 0], value)
            for camera in bridge.CAMERAS:
                shown = windows[camera].array[at, 0].transpose(1, 2, 0).astype(int)
                worst = max(worst, np.abs(shown - step["observation"][camera]).max())
    # TensorFlow decodes JPEG by a quicker, less exact cosine transform, or as we do.
    assert worst <= 4, worst


def test_bytes_of_images_are_those_of_tfds(root):
    skip = tfds.decode.SkipDecoding()
    decoders = {"decoders": {"steps": {"observation": {"image_2": skip}}}}
    found = importing.recordings(importing.opened(root, "bridge"), split="val")
    for recording, steps in zip(found, episodes(root, "val", **decoders), strict=True):
        topic = [name for name, *_ in recording.topics].index("/image_2")
        wanted = [at == topic for at in range(len(recording.topics))]
        data = [message for batch in recording.arrays(wanted) for _, _, message in batch]
        assert len(data) == len(steps)
        for message, step in zip(data, steps, strict=True):
            assert message == step["observation"]["image_2"]


def test_a_first_mapping_reads_all(root, tmp_path):
    text = tmp_path / "mapping.yaml"
    assert importing.main([str(root), "--write-mapping", str(text)]) == 0
    text.write_text(text.read_text().replace("rate_hz:", "rate_hz: 5"))
    cache = robocache.EpisodeCache.from_dataset(root, tmp_path / "out", mapping=text)
    assert cache.streams["language_embedding"]["row_shape"] == [512]
    assert [cache.size(name)[0] for name in ("is_last", "image_3")] == [sum(LENGTHS)] * 2
