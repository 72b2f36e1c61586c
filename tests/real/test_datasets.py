"""Published datasets, value by value: BridgeData V2, a Unitree G1 and an SO-101 of LeRobot."""

import io
import json
import warnings

import numpy as np
import pytest
import yaml

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
pytest.importorskip("av")
pytest.importorskip("google_crc32c")
pytest.importorskip("google.protobuf")
pytest.importorskip("PIL.Image")
pytest.importorskip("pyarrow")
import av
import tfrecord_reader
from PIL import Image
from pyarrow import parquet

import robocache
from robocache.datasets import importing
from robocache.datasets.lerobot import Dataset

BRIDGE_NS = 200_000_000
CAMERAS = [f"image_{at}" for at in range(4)]


def imported(dataset, out, **options):
    """The cache of a dataset; what the import says is not of interest here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return robocache.EpisodeCache.load(importing.import_rows(dataset, out, **options))


def frames(cache, episode, stamps, streams):
    """The windows of an episode at its frames."""
    return cache.windows([episode] * len(stamps), stamps, {name: {} for name in streams})


@pytest.fixture(name="bridge")
def bridge_fixture(real, tmp_path):
    """The store of BridgeData V2, and its episodes by another reader."""
    root = real("bridge")
    cache = imported(root, tmp_path / "out", mapping="bridge")
    shards = [next(root.glob(f"*-{split}.tfrecord-*")) for split in ("train", "val")]
    found = [
        tfrecord_reader.example(data) for shard in shards for data in tfrecord_reader.records(shard)
    ]
    return cache, found


def test_bridge_has_the_numbers_and_the_tasks_of_its_files(bridge):
    cache, episodes = bridge
    assert len(cache.episodes) == len(episodes) == 50
    steps = 0
    for number, features in enumerate(episodes):
        length = len(features["steps/is_first"])
        stamps = [(at + 1) * BRIDGE_NS for at in range(length)]
        windows = frames(cache, number, stamps, ["state", "action"])
        for stream, feature in {
            "state": "steps/observation/state",
            "action": "steps/action",
        }.items():
            assert windows[stream].valid.all()
            expected = features[feature].reshape(length, 7)
            assert np.array_equal(windows[stream].float32()[:, 0], expected)
        text = features["steps/language_instruction"][0].decode()
        assert (cache.episodes[number]["task"] or "") == text
        steps += length
    assert steps == 500
    first = frames(cache, 0, [BRIDGE_NS], ["state", "action"])
    assert np.allclose(
        first["state"].float32()[0, 0],
        [0.2338, 0.1124, 0.175, 0.1, -0.2138, 0.2133, 1.0008],
        atol=5e-5,
    )
    # The first action moves nothing.
    assert np.allclose(first["action"].float32()[0, 0, :6], 0, atol=1e-6)


def test_bridge_has_the_images_of_its_files(bridge):
    cache, episodes = bridge
    blank = dict.fromkeys(CAMERAS, 0)
    for number, features in enumerate(episodes):
        length = len(features["steps/is_first"])
        stamps = [(at + 1) * BRIDGE_NS for at in range(length)]
        windows = frames(cache, number, stamps, CAMERAS)
        for camera in CAMERAS:
            for at, data in enumerate(features[f"steps/observation/{camera}"]):
                expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
                has_one_colour = (expected == expected[:1, :1]).all()
                blank[camera] += has_one_colour
                assert windows[camera].valid[at, 0] == (not has_one_colour), (number, camera, at)
                if not has_one_colour:
                    found = windows[camera].array[at, 0].transpose(1, 2, 0)
                    assert np.array_equal(found, expected), (number, camera, at)
    # The fourth camera is not there; the first always is.
    assert blank["image_3"] == 500 and blank["image_0"] == 0


def test_bridge_says_what_its_numbers_are(real):
    content = yaml.safe_load(importing.generated(importing.opened(real("bridge"), "bridge")))
    assert content["streams"]["state"]["angular"] == ["roll", "pitch", "yaw"]
    assert content["streams"]["action"]["held"] == ["gripper"]


def numbers_only(dataset, path):
    """A generated configuration without its images."""
    content = yaml.safe_load(importing.generated(dataset))
    streams = {name: of for name, of in content["streams"].items() if "image" not in of}
    path.write_text(json.dumps({**content, "streams": streams}))
    return path


def test_g1_has_the_numbers_of_its_tables(real, tmp_path):
    root, out = real("g1"), tmp_path / "out"
    dataset = Dataset(root)
    config = numbers_only(dataset, tmp_path / "robot.yaml")
    cache = imported(dataset, out, config=config, episodes=[2, 4])
    names = dataset.features["observation.state"].names
    assert names[0] == "kLeftShoulderPitch" and len(names) == 26
    for at, number in enumerate((2, 4)):
        table = parquet.read_table(root / f"data/chunk-000/episode_{number:06d}.parquet")
        stamps = [(k + 1) * 33_333_333 for k in range(len(table))]
        windows = frames(cache, at, stamps, ["state", "action"])
        for stream, column in {"state": "observation.state", "action": "action"}.items():
            assert windows[stream].valid.all()
            expected = np.array(table[column].to_pylist(), np.float32)
            assert np.array_equal(windows[stream].float32()[:, 0], expected)


def test_g1_has_the_pixels_of_its_videos(real):
    """Every frame of episode 2. The file has no tag of colours, so PyAV's conversion is that of every version."""
    dataset = Dataset(real("g1"))
    (recording,) = importing.recordings(dataset, [2])
    topics = [name for name, *_ in recording.topics]
    camera = topics.index("/observation/images/cam_high")
    video = next(dataset.root.glob("videos/*/*/episode_000002.mp4"))
    with av.open(str(video)) as container:
        expected = (frame.to_ndarray(format="rgb24") for frame in container.decode(video=0))
        count = 0
        for batch in recording.arrays([at == camera for at in range(len(topics))]):
            for _, _, data in batch:
                pixels = np.frombuffer(data, np.uint8).reshape(480, 640, 3)
                assert np.array_equal(pixels, next(expected)), count
                count += 1
        assert count > 100 and next(expected, None) is None


def test_so101_has_the_numbers_of_its_table(real, tmp_path):
    root = real("so101_v30")
    dataset = Dataset(root)
    cache = imported(
        dataset, tmp_path / "out", config=numbers_only(dataset, tmp_path / "robot.yaml")
    )
    table = parquet.read_table(next((root / "data").rglob("*.parquet")))
    episodes = np.array(table["episode_index"].to_pylist())
    assert len(table) == 1_492 and len(cache.episodes) == 4
    for number in range(4):
        rows = np.flatnonzero(episodes == number)
        stamps = [(k + 1) * 33_333_333 for k in range(len(rows))]
        windows = frames(cache, number, stamps, ["state", "action"])
        for stream, column in {"state": "observation.state", "action": "action"}.items():
            expected = np.array(table[column].to_pylist(), np.float32)[rows]
            assert windows[stream].valid.all()
            assert np.array_equal(windows[stream].float32()[:, 0], expected)
