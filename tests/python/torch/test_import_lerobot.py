"""`robocache import` of datasets that LeRobot wrote: rows and pixels are those that LeRobot's loader returns."""

import sys

import numpy as np
import pytest
import waiting

pytest.importorskip("lerobot")
from bags import serialized  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402
from own_lerobot import encoded_by  # noqa: E402
from read_recordings import message  # noqa: E402
from robots import CONFIG, picture, record  # noqa: E402

import robocache  # noqa: E402
from robocache.datasets import importing  # noqa: E402
from robocache.datasets.lerobot import Dataset  # noqa: E402
from robocache.lerobot import to_lerobot  # noqa: E402

pytestmark = pytest.mark.timeout(600)
LENGTHS = (25, 14, 31)
CAMERA, STATE = "observation.images.top", "observation.state"


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


# LeRobot's loader with PyAV does not find all frames of hevc: tests/python/test_import.py has them.
@pytest.fixture(name="dataset", scope="module", params=["libsvtav1", "h264", "image"])
def dataset_fixture(request, tmp_path_factory):
    """A dataset of three episodes with a video, or with pictures in its table."""
    root = tmp_path_factory.mktemp("lerobot") / "dataset"
    is_video = request.param != "image"
    names = ["height", "width", "channels"]
    features = {
        STATE: {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
        "action": {"dtype": "float32", "shape": (2,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
        "grid": {"dtype": "float32", "shape": (2, 3), "names": None},
        CAMERA: {"dtype": "video" if is_video else "image", "shape": (128, 192, 3), "names": names},
    }
    more = encoded_by(request.param) if is_video else {}
    made = LeRobotDataset.create(
        "local/dataset", 30, features, root=root, use_videos=is_video, **more
    )
    random = np.random.default_rng(4)
    for number, length in enumerate(LENGTHS):
        for at in range(length):
            frame = {
                STATE: random.normal(size=3).astype(np.float32),
                "action": random.normal(size=2).astype(np.float32),
                "next.done": np.array([at == length - 1]),
                "grid": random.normal(size=(2, 3)).astype(np.float32),
                CAMERA: picture(number + at / 10),
            }
            made.add_frame({**frame, "task": f"task {number}"})
        made.save_episode()
    made.finalize()
    return LeRobotDataset("local/dataset", root=root, video_backend="pyav")


def test_a_dataset_of_lerobot_has_its_frames(dataset):
    """Frame by frame through the pipeline."""
    own = Dataset(dataset.root)
    text = importing.config_of(own)
    number = 0
    for recording, length in zip(importing.recordings(own), LENGTHS, strict=True):
        assert recording.task == dataset[number]["task"]
        pipeline = robocache.Pipeline(text, backend="cpu")
        arrays = (each for batch in recording.arrays([True] * 5) for each in batch)
        for k in range(length):
            for _ in recording.topics:
                at, stamp, data = next(arrays)
                topic = recording.topics[at][0]
                assert pipeline.push(
                    topic, serialized(message(recording, topic, stamp, data)), stamp
                )
            tensor, item = pipeline.tick(k + 1), dataset[number]
            assert all(tensor[name].valid.all() for name in tensor.segments)
            for stream, key in (
                ("state", STATE),
                ("action", "action"),
                ("done", "next.done"),
                ("grid", "grid"),
            ):
                found = np.asarray(item[key], np.float32).reshape(-1)
                assert np.array_equal(tensor[stream].float32()[0], found)
            shown = np.rint(item[CAMERA].numpy() * 255)
            assert np.array_equal(tensor["top"].array[0], shown)
            number += 1


def test_the_numbers_of_a_path_are_those_of_the_dataset(dataset):
    caches = [robocache.EpisodeCache.from_lerobot(each) for each in (dataset, str(dataset.root))]
    episodes, instants = np.repeat([0, 1, 2], 3), np.tile([1, 4, 14], 3) * 33_333_333
    ours, theirs = (cache.windows(episodes, instants) for cache in caches)
    assert sorted(ours) == sorted(theirs) == ["action", "done", "grid", "state"]
    for name in ours:
        assert np.array_equal(ours[name].array, theirs[name].array)
        assert np.array_equal(ours[name].valid, theirs[name].valid)
    assert caches[0].episodes == caches[1].episodes


def test_a_dataset_of_bags_keeps_its_stamps(tmp_path):
    """`to-lerobot` and back: ticks are at the stamps of the bag, and have its values."""
    record(tmp_path / "bags" / "pick", seconds=1.0)
    (tmp_path / "robot.yaml").write_text(CONFIG)
    given = {"images": True, "keep_invalid": True}
    to_lerobot([tmp_path / "bags"], tmp_path / "robot.yaml", tmp_path / "dataset", **given)
    dataset = LeRobotDataset("local/dataset", root=tmp_path / "dataset")
    own = Dataset(tmp_path / "dataset")
    pipeline = robocache.Pipeline(importing.config_of(own), backend="cpu")
    topics = {each["topic"] for each in pipeline.inputs}
    for recording in importing.recordings(own):
        wanted = [topic in topics for topic, *_ in recording.topics]
        arrays = [each for batch in recording.arrays(wanted) for each in batch]
        for k in range(recording.topics[0][2]):
            item = dataset[k]
            of_frame = [each for each in arrays if each[1] == int(item["stamp_ns"])]
            found = {recording.topics[topic][0] for topic, *_ in of_frame}
            # What the export says of a frame that is not valid is no message.
            for topic, stream in (("/observation/state", "joints"), ("/action", "action")):
                assert (topic in found) == bool(item[f"valid.{stream}"])
            for at, stamp, data in of_frame:
                topic = recording.topics[at][0]
                assert pipeline.push(
                    topic, serialized(message(recording, topic, stamp, data)), stamp
                )
            tensor = pipeline.tick_at(int(item["stamp_ns"]))
            assert tensor.tick == int(item["tick"])
            assert tensor["state"].valid[0] == bool(item["valid.joints"])
            if item["valid.joints"]:
                assert np.array_equal(tensor["state"].float32()[0], item[STATE])
        channels = {each["name"]: each["channels"] for each in pipeline.layout}
        assert channels["action"] == list(own.features["action"].names)


def test_lerobot_is_not_imported(dataset):
    program = f"""
import sys
sys.modules["lerobot"] = sys.modules["torch"] = None
from robocache.importing import recordings
from robocache.datasets.lerobot import Dataset
found = recordings(Dataset({str(dataset.root)!r}))
print(sum(len(batch) for each in found for batch in each.arrays([True] * 5)))
"""
    run = waiting.run([sys.executable, "-c", program])
    assert run.stdout == f"{5 * sum(LENGTHS)}\n", run.stderr


def test_a_cache_has_the_images(dataset, tmp_path):
    cache = robocache.EpisodeCache.from_dataset(dataset.root, tmp_path / "out")
    sampler = robocache.WindowSampler.of(
        cache, period_ns=33_333_333, batch_size=sum(LENGTHS), shuffle=False
    )
    episodes, instants_ns, epochs = sampler.batch(epoch=0, number=0)
    windows = cache.windows(episodes, instants_ns, epochs=epochs)
    for number in (0, 24, 25, 38, 39, 69):
        item = dataset[number]
        assert np.array_equal(windows["state"].array[number, 0], item[STATE])
        assert np.array_equal(windows["top"].array[number, 0], np.rint(item[CAMERA].numpy() * 255))
    assert all(windows[name].valid.all() for name in windows)
