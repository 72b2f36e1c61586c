"""LeRobot datasets as recordings: `robocache.importing` and the reader below it, without LeRobot.

Expected pixels are those that PyAV decodes from the whole video, resized by Pillow.
"""

import argparse
import io
import json
import re
import shutil
import threading
from pathlib import Path

import lerobot_files
import numpy as np
import pytest
import read_recordings
import yaml
from bags import serialized, write_bag
from lerobot_files import (
    CAMERA,
    STAMP,
    STATE,
    Files,
    camera,
    decoded,
    encode,
    frames_of,
    picture,
    rewritten,
)
from PIL import Image
from read_recordings import parsed, read

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache
from robocache.datasets import (
    first_config,
    frame_stamps,
    import_options,
    importing,
    lerobot_recording,
)
from robocache.datasets.dataset import Topics, picture_size
from robocache.datasets.lerobot import Dataset

TOP = "/observation/images/top"
CODECS = {
    "libx264": None,
    "libx264 with B-frames": lerobot_files.B_FRAMES,
    "libx265": None,
    "libx265 with B-frames": lerobot_files.B_FRAMES,
    "libsvtav1": {"g": "6"},
}


def recordings(root, **options):
    return importing.recordings(Dataset(root), **options)


def pixels(recording):
    """The pictures of the camera."""
    return read_recordings.pixels(recording, TOP)


@pytest.fixture(name="both", scope="module", params=["v2.1", "v3.0"])
def both_fixture(request, tmp_path_factory):
    """A dataset of each format."""
    return lerobot_files.write(tmp_path_factory.mktemp("both") / "dataset", request.param)


@pytest.fixture(name="dataset", scope="module")
def dataset_fixture(tmp_path_factory):
    return lerobot_files.write(tmp_path_factory.mktemp("one") / "dataset")


def copied(dataset, tmp_path):
    return shutil.copytree(dataset, tmp_path / "copy")


def video_of(root, number=0):
    return root / f"videos/chunk-000/{CAMERA}/episode_{number:06d}.mp4"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_frames_have_the_pixels_of_pyav(tmp_path, version, codec):
    root = lerobot_files.write(
        tmp_path / "dataset", version, (20, 7, 12), codec=codec.split()[0], options=CODECS[codec]
    )
    begin = 0
    for recording, length in zip(recordings(root), (20, 7, 12), strict=True):
        if version == "v2.1":
            (video,) = [video_of(root, int(recording.name.split("_")[1]))]
        else:
            video = root / f"videos/{CAMERA}/chunk-000/file-000.mp4"
        _, expected = decoded(video)
        expected = expected[begin : begin + length] if version == "v3.0" else expected
        assert np.array_equal(pixels(recording), expected)
        begin += length


def test_only_the_part_of_an_episode_is_decoded(tmp_path, monkeypatch):
    root = lerobot_files.write(tmp_path / "dataset", "v3.0", (60, 60, 60), options={"g": "10"})
    from robocache.datasets import lerobot_frames

    count, plain = [], lerobot_frames._decoded

    def counted(*given):
        for frame in plain(*given):
            count.append(frame.time)
            yield frame

    monkeypatch.setattr(lerobot_frames, "_decoded", counted)
    assert len(pixels(recordings(root)[1])) == 60
    assert len(count) <= 60 + 10 and count[0] >= 50 / 30


def test_messages_are_those_of_the_types(both):
    dataset = Dataset(both)
    for recording, length, task in zip(recordings(both), (20, 12), ("pick", "place"), strict=True):
        assert (recording.task, recording.span_ns) == (
            task,
            (33_333_333, length * 33_333_333),
        )
        assert recording.path == f"{both}#{recording.name}"
        assert {name: (kind, count) for name, kind, count, _ in recording.topics} == {
            "/observation/state": (read_recordings.JOINT_STATE, length),
            "/action": (read_recordings.JOINT_STATE, length),
            "/next/reward": (read_recordings.JOINT_STATE, length),
            "/next/done": (read_recordings.JOINT_STATE, length),
            TOP: (read_recordings.IMAGE, length),
        }
        (episode,) = [each for each in dataset.episodes if each.name == recording.name]
        expected = frames_of(length, episode.number)
        names = {
            "/observation/state": (STATE, ["a", "b", "grip.pos"]),
            "/action": ("action", ["a", "b"]),
            "/next/reward": ("next.reward", ["reward"]),
            "/next/done": ("next.done", ["done"]),
        }
        found = read(recording)
        for topic, (column, joints) in names.items():
            assert [stamp for stamp, _ in found[topic]] == [
                k * 33_333_333 for k in range(1, length + 1)
            ]
            messages = [parsed(recording, topic, message) for _, message in found[topic]]
            assert all(message.name == joints for message in messages)
            positions = np.array([message.position for message in messages])
            assert np.array_equal(positions, expected[column].reshape(length, -1))


def test_a_tick_has_a_frame(both):
    """Through the pipeline: tick k + 1 has the values of frame k, and Pillow's pixels."""
    text = first_config.config_of(Dataset(both), resize=(24, 32))
    for recording in recordings(both):
        pipeline = robocache.Pipeline(text, backend="cpu")
        found, expected = (
            read(recording),
            frames_of(recording.topics[0][2], int(recording.name[-1])),
        )
        assert pipeline.period_ns == 33_333_333
        for k, image in enumerate(pixels(recording)):
            for topic, arrays in found.items():
                stamp, data = arrays[k]
                message = read_recordings.message(recording, topic, stamp, data)
                assert pipeline.push(topic, serialized(message), stamp)
            tensor = pipeline.tick(k + 1)
            assert all(tensor[name].valid.all() for name in tensor.segments)
            assert np.array_equal(tensor["state"].float32()[0], expected[STATE][k])
            assert tensor["done"].float32()[0] == expected["next.done"][k]
            resized = Image.fromarray(image).resize((32, 24), Image.Resampling.BILINEAR)
            assert np.array_equal(tensor["top"].array[0].transpose(1, 2, 0), resized)
        channels = {each["name"]: each["channels"] for each in pipeline.layout}
        assert channels["state"] == ["a.position", "b.position", "grip.pos.position"]


def test_threads_read_at_once(both):
    found = recordings(both)
    alone = [read(recording) for recording in found]
    results = {}

    def run(key):
        results[key] = read(found[key % 2])

    threads = [threading.Thread(target=run, args=(key,)) for key in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[key] == alone[key % 2] for key in range(6))


def uneven(root, seconds, row_seconds=None):
    """An episode of frames at these instants."""
    files = Files(root, "v2.1")
    columns = frames_of(len(seconds))
    rows = seconds if row_seconds is None else row_seconds
    columns["timestamp"] = np.asarray(rows, np.float32)
    pictures = [picture(at) for at in range(len(seconds))]
    files.add(columns, {CAMERA: (pictures, {"seconds": seconds, "options": {"bf": "2"}})})
    return files.finish()


def test_uneven_frames_are_found_by_their_stamps(tmp_path):
    seconds = np.cumsum([0, 0.05, 0.02, 0.1, 0.033, 0.04, 0.2, 0.01])
    root = uneven(tmp_path / "dataset", seconds)
    (recording,) = recordings(root)
    _, expected = decoded(video_of(root))
    assert np.array_equal(pixels(recording), expected)
    stamps = [stamp for stamp, _ in read(recording, [TOP])[TOP]]
    assert np.abs(np.array(stamps) - 33_333_333 - seconds * 1e9).max() < 1000


def test_a_row_without_a_frame_is_an_error(tmp_path):
    even = np.arange(8) / 30
    root = uneven(tmp_path / "dataset", np.where(np.arange(8) == 5, even + 0.01, even), even)
    (recording,) = recordings(root)
    found = []
    with pytest.raises(ValueError, match=r"0.mp4: expected a frame within 0.1 ms of 0.166667 s"):
        for batch in recording.arrays([True] * 5):
            found += batch
    # What is before the damage came.
    assert len([stamp for topic, stamp, _ in found if recording.topics[topic][0] == TOP]) == 5
    assert len(pixels(recordings(root, tolerance_s=0.011)[0])) == 8


def test_a_video_that_ends_early_is_an_error(dataset, tmp_path):
    root = copied(dataset, tmp_path)
    encode(video_of(root), [picture(at) for at in range(15)], 30)
    with pytest.raises(ValueError, match=r"last one at 0.466667 s: the video may be truncated"):
        read(recordings(root)[0])
    # Whoever does not want the camera reads no video.
    assert len(read(recordings(root)[0], ["/action"])["/action"]) == 20


def test_a_truncated_file_is_an_error(dataset, tmp_path):
    root = copied(dataset, tmp_path)
    data = video_of(root).read_bytes()
    video_of(root).write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"0.mp4: expected a video, found .* may be truncated"):
        read(recordings(root)[0])
    assert len(pixels(recordings(root)[1])) == 12


def test_damage_inside_a_file_is_an_error(dataset, tmp_path):
    root = copied(dataset, tmp_path)
    # The index comes first, and the frames are cut off.
    options = {"movflags": "faststart"}
    import av

    with (
        av.open(str(video_of(dataset))) as source,
        av.open(str(video_of(root)), "w", options=options) as to,
    ):
        stream = to.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                to.mux(packet)
    data = video_of(root).read_bytes()
    video_of(root).write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(ValueError, match=r"0.mp4: expected "):
        read(recordings(root)[0])


def test_a_missing_video_is_an_error(dataset, tmp_path):
    root = copied(dataset, tmp_path)
    video_of(root).unlink()
    recording = recordings(root)[0]
    assert recording.span_ns[1] > 0
    with pytest.raises(FileNotFoundError, match=r"episode_000000.mp4: expected a video, found no"):
        read(recording)


def test_an_episode_without_a_camera_is_an_error(tmp_path):
    files = Files(tmp_path / "dataset", "v3.0")
    files.add(frames_of(5), {CAMERA: ([picture(at) for at in range(5)], {})})
    files.add(frames_of(5))
    has, lacks = recordings(files.finish())
    assert len(pixels(has)) == 5
    with pytest.raises(ValueError, match=rf"#episode_000001: expected a video of '{CAMERA}'"):
        read(lacks)


@pytest.mark.parametrize("wrong", [None, float("nan"), -1.0, "0"])
def test_a_video_without_its_begin_fails_its_episode_alone(both, tmp_path, wrong):
    """In a shared file, it would be the video of another episode."""
    import pyarrow as pa
    from pyarrow import parquet

    if Dataset(both).version != "v3.0":
        pytest.skip("v2.1 has a video for each episode")
    root = copied(both, tmp_path)
    (path,) = (root / "meta/episodes").rglob("*.parquet")
    name = f"videos/{CAMERA}/from_timestamp"
    table = parquet.read_table(path)
    columns = table.to_pydict()
    columns[name] = [str(columns[name][0]) if wrong == "0" else columns[name][0], wrong]
    parquet.write_table(pa.table(columns), path)
    outcomes = importing.import_dataset(root, tmp_path / "out", resize=(8, 8))
    said = r"parquet: expected in 'videos/.*/from_timestamp' the begin of episode 1 in its video"
    assert re.search(said, outcomes[1]["failed"]["error"])
    assert ("done" in outcomes[0]) == (wrong != "0")
    # Who wants no image needs no begin.
    assert len(robocache.EpisodeCache.from_lerobot(root).episodes) == 2
    parquet.write_table(table.drop_columns([name]), path)
    outcomes = importing.import_dataset(root, tmp_path / "none", resize=(8, 8))
    assert all("the begin of episode" in each["failed"]["error"] for each in outcomes)


def test_another_size_is_an_error(dataset, tmp_path):
    root = copied(dataset, tmp_path)
    encode(video_of(root), [picture(at, 64, 64) for at in range(20)], 30)
    with pytest.raises(ValueError, match=r"expected frames of 48 x 64 .* found 64 x 64 at 0.000 s"):
        read(recordings(root)[0])


def wrong_tables():
    def shorter(columns):
        for name in columns:
            del columns[name][-1]

    def another_shape(columns):
        columns[STATE] = [row[:2] for row in columns[STATE]]

    def without_a_value(columns):
        columns[STATE][3] = None

    def without_a_column(columns):
        del columns["action"]

    def not_finite(columns):
        columns["timestamp"][2] = float("nan")

    def back(columns):
        columns["timestamp"][2] = 0.0

    def text(columns):
        columns["action"] = ["left"] * 20

    return {
        shorter: "expected 20 frames of episode 0, found 19",
        another_shape: r"'observation.state': expected the shape \[3\] .* 40 numbers in 20 frames",
        without_a_value: "episode 0: column 'observation.state': expected a value for every frame, found 1 without",
        without_a_column: "expected a column 'action', found none",
        not_finite: "expected finite timestamps",
        back: "expected increasing stamps, found 33333333 ns after 66666668 ns at frame 2",
        text: "'action': expected numbers, found string",
    }


@pytest.mark.parametrize(("change", "said"), wrong_tables().items())
def test_a_wrong_table_is_an_error(dataset, tmp_path, change, said):
    root = copied(dataset, tmp_path)
    rewritten(root, change)
    recording = recordings(root)[0]
    assert recording.span_ns[0] == 33_333_333
    with pytest.raises(ValueError, match=said):
        read(recording)


def test_a_damaged_table_is_an_error(dataset, tmp_path):
    root = copied(dataset, tmp_path)
    path = root / "data/chunk-000/episode_000000.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"000000.parquet: expected a Parquet file, found damage"):
        read(recordings(root)[0])
    path.unlink()
    with pytest.raises(
        FileNotFoundError, match="000000.parquet: expected a Parquet file, found no"
    ):
        read(recordings(root)[0])


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("meta/info.json", None, "expected a folder of a LeRobot dataset, found no meta/info.json"),
        ("meta/info.json", "{", "info.json: expected the JSON of a LeRobot dataset"),
        ("meta/info.json", "{}", "expected 'codebase_version', found none"),
        ("meta/info.json", '{"codebase_version": "v1.6", "fps": 30, "features": {}}', "found v1.6"),
        ("meta/info.json", '{"codebase_version": "v2.1", "fps": 0, "features": {}}', "found fps 0"),
        (
            "meta/info.json",
            '{"codebase_version": "v2.1", "fps": 3, "features": {}, "data_path": "{episode}"}',
            "expected in 'data_path' a pattern with episode_chunk, episode_index, found '{episode}'",
        ),
        *(
            (
                "meta/info.json",
                json.dumps(
                    {"codebase_version": "v2.1", "fps": 3, "features": {}, "data_path": path}
                ),
                f"expected in 'data_path' {said}",
            )
            for path, said in {
                "../{episode_index}": "a file of the dataset",
                "/etc/{episode_index}": "a file of the dataset",
                "{episode_index:9999999999d}": "a pattern with",
                "{episode_index.__class__}": "a pattern with",
            }.items()
        ),
        ("meta/episodes.jsonl", None, "episodes.jsonl: expected a file of JSON lines, found none"),
        ("meta/episodes.jsonl", "{}", "expected 'episode_index' in each line"),
        ("meta/episodes.jsonl", "no", "episodes.jsonl: expected JSON lines"),
    ],
)
def test_a_wrong_dataset_is_an_error(dataset, tmp_path, file, text, said):
    root = copied(dataset, tmp_path)
    if text is None:
        (root / file).unlink()
    else:
        (root / file).write_text(text)
    with pytest.raises(ValueError, match=said):
        Dataset(root)


def odd(root, dtype="image", **more):
    """A dataset of odd names and types, with pictures in its table."""
    features = {
        "observation.images.left-1": camera(dtype=dtype),
        "observation.2d": {"dtype": "float64", "shape": [2, 2], "names": None},
        "observation.left_arm": {
            "dtype": "float32",
            "shape": [2],
            "names": ["a.position", "b.position"],
        },
        "Left Arm": {"dtype": "int64", "shape": [2], "names": {"x": 1, "y": 0}},
        "note": {"dtype": "string", "shape": [1], "names": None},
        "grid": {"dtype": "float32", "shape": [41, 100], "names": None},
    }
    files = Files(root, "v2.1", features={**features, **more.pop("features", {})})
    columns = {
        **frames_of(6),
        "observation.images.left-1": [_png(picture(at)) for at in range(6)],
        "observation.2d": np.arange(24.0).reshape(6, 4),
        "observation.left_arm": np.zeros((6, 2), np.float32),
        "Left Arm": np.arange(12).reshape(6, 2),
        **more,
    }
    files.add(columns)
    return files.finish()


def _png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


#: Joints of the Unitree G1 in a published dataset.
G1 = ["kLeftShoulderPitch", "kLeftElbow", "kRightHandPinky"]


@pytest.mark.parametrize(
    ("shape", "names", "expected", "said"),
    [
        # A list in a list, as in the published datasets of the Unitree G1.
        ([3], [G1], G1, None),
        ([3], [[[G1]]], G1, None),
        ([2, 2], [["a", "b"], ["c", "d"]], ["a", "b", "c", "d"], None),
        ([3], {"arm": ["a", "b"], "hand": ["c"]}, ["a", "b", "c"], None),
        ([3], {"motors": [G1]}, G1, None),
        ([3], {"y": 1, "z": 2, "x": 0}, ["x", "y", "z"], None),
        ([2], {"y": 2, "x": 1}, ["x", "y"], None),
        # QianHuixun/New-Test: 28 names for 30 elements.
        ([4], ["a", "b"], ["a", "b", "2", "3"], "2 names for 4 elements"),
        ([4], [["a", "b", "c"]], ["a", "b", "c", "3"], "3 names for 4 elements"),
        ([3], {"x": 0, "z": 2}, ["x", "1", "z"], "2 names for 3 elements"),
        ([3], ["a", None, "c"], ["a", "1", "c"], "2 names for 3 elements"),
        ([3], ["a", "", "c"], ["a", "1", "c"], "2 names for 3 elements"),
        # Which of them have an element is unknown.
        ([2], ["a", "b", "c"], ["0", "1"], "3 names for 2 elements"),
        ([1], ["a", "b"], ["odd"], "2 names for 1 element"),
        # A name is that of one element.
        ([3], ["a", "a", "c"], ["0", "1", "c"], "'a' is the name of 2 elements"),
        ([3], ["2", "b"], ["0", "b", "2"], "2 names for 3 elements"),
        ([3], [0, 1, 2], ["0", "1", "2"], None),
        # No names, or those of the axes.
        ([2], None, ["0", "1"], None),
        ([2], [], ["0", "1"], None),
        ([2], {"axes": None}, ["0", "1"], None),
        ([2, 2], ["rows", "columns"], ["0", "1", "2", "3"], None),
        ([1], None, ["odd"], None),
        ([1], [["only"]], ["only"], None),
    ],
)
def test_elements_have_the_names_of_the_feature_and_missing_ones_are_told(
    tmp_path, shape, names, expected, said
):
    count = int(np.prod(shape))
    features = {"observation.odd": {"dtype": "float32", "shape": shape, "names": names}}
    files = Files(tmp_path / "dataset", "v2.1", features=features)
    files.add({**frames_of(3), "observation.odd": np.arange(3.0 * count).reshape(3, count)})
    dataset = Dataset(files.finish())
    assert list(dataset.features["observation.odd"].names) == expected
    text = f"'observation.odd': {said}"
    told = [line for line in importing.remarks(dataset) if line.startswith("'observation.odd'")]
    assert [line for line in told if line.startswith(text)] == told and bool(told) == bool(said)
    (recording,) = recordings(dataset.root)
    found = read(recording, ["/observation/odd"])["/observation/odd"]
    assert parsed(recording, "/observation/odd", found[0][1]).name == expected


def test_an_import_warns_of_missing_names(tmp_path):
    features = {
        "observation.odd": {"dtype": "float32", "shape": [30], "names": [*map(chr, range(97, 125))]}
    }
    files = Files(tmp_path / "dataset", "v2.1", features=features)
    files.add({**frames_of(6), "observation.odd": np.zeros((6, 30), np.float32)})
    with pytest.warns(RuntimeWarning, match="'observation.odd': 28 names for 30 elements"):
        importing.import_rows(files.finish(), tmp_path / "out")


def test_pictures_of_the_table_stay_compressed(tmp_path):
    root = odd(tmp_path / "dataset")
    (recording,) = recordings(root)
    topic = "/observation/images/left_1"
    found = read(recording, [topic])[topic]
    assert [data for _, data in found] == [_png(picture(at)) for at in range(6)]
    pipeline = robocache.Pipeline(first_config.config_of(Dataset(root)), backend="cpu")
    for k, (stamp, data) in enumerate(found):
        message = read_recordings.message(recording, topic, stamp, data)
        assert pipeline.push(topic, serialized(message), stamp)
        tensor = pipeline.tick(k + 1)
        assert np.array_equal(tensor["left_1"].array[0].transpose(1, 2, 0), picture(k))


def test_pictures_of_another_size_are_an_error(tmp_path):
    pictures = [_png(picture(at)) for at in range(5)]
    for wrong, said in ((_png(picture(0, 8, 8)), "found 8 x 8"), (b"?", "neither PNG nor JPEG")):
        root = odd(tmp_path / said, **{"observation.images.left-1": [*pictures, wrong]})
        with pytest.raises(ValueError, match=said):
            read(recordings(root)[0])
    root = odd(tmp_path / "none", **{"observation.images.left-1": [*pictures, b""]})
    with pytest.raises(
        ValueError, match="expected the bytes of a picture in 'observation.images.left-1' for"
    ):
        read(recordings(root)[0])


def test_the_size_of_a_jpeg(tmp_path):
    for options in ({}, {"progressive": True}, {"comment": "a" * 300}):
        file = io.BytesIO()
        Image.fromarray(picture(0, 40, 24)).save(file, "jpeg", **options)
        assert picture_size(file.getvalue()) == (40, 24)
    assert picture_size(file.getvalue()[:20]) is None and picture_size(b"") is None


def test_names_that_are_not_allowed_are_changed(tmp_path, capsys):
    root = odd(tmp_path / "dataset")
    dataset = Dataset(root)
    assert Topics(dataset).renamed == {
        "/observation/images/left_1": "observation.images.left-1",
        "/observation/_2d": "observation.2d",
        "/Left_Arm": "Left Arm",
    }
    assert Topics(dataset).left_out == {
        "note": "elements of string",
        "grid": "4100 numbers, at most 4096",
    }
    file = tmp_path / "robot.yaml"
    assert importing.main([str(root), "--write-config", str(file)]) == 0
    said = capsys.readouterr().err
    assert "'observation.2d' is the topic /observation/_2d" in said
    assert "'note' is left out: elements of string" in said and "stamps: frame k is at" in said
    streams = yaml.safe_load(file.read_text())["streams"]
    assert [(name, stream.get("joints")) for name, stream in streams.items()] == [
        ("state", ["a", "b", "grip.pos"]),
        ("action", ["a", "b"]),
        ("reward", ["reward"]),
        ("done", ["done"]),
        ("left_1", None),
        ("f2d", ["0", "1", "2", "3"]),
        ("left_arm", ["a", "b"]),
        ("left_arm_", ["y", "x"]),
    ]
    found = read(recordings(root)[0])
    message = parsed(recordings(root)[0], "/Left_Arm", found["/Left_Arm"][2][1])
    assert (message.name, message.position.tolist()) == (["y", "x"], [4, 5])
    message = parsed(recordings(root)[0], "/observation/_2d", found["/observation/_2d"][2][1])
    assert message.position.tolist() == [8, 9, 10, 11]
    # It stays, even if it was changed.
    assert importing.main([str(root), "--write-config", str(file)]) == 1
    assert "expected a file that does not exist yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        ([48, 64, 3], ["height", "width", "channels"]),
        ([48, 64, 3], ["height", "width", "channel"]),
        ([3, 48, 64], ["channels", "height", "width"]),
        ([3, 48, 64], None),
        ([48, 64, 3], None),
    ],
)
def test_the_channels_of_an_image_are_first_or_last(dataset, tmp_path, shape, names):
    root = copied(dataset, tmp_path)
    path = root / "meta/info.json"
    info = json.loads(path.read_text())
    info["features"][CAMERA] |= {"shape": shape, "names": names}
    path.write_text(json.dumps(info))
    assert Dataset(root).features[CAMERA].shape == (48, 64)
    info["features"][CAMERA]["info"] = {"video.is_depth_map": True}
    path.write_text(json.dumps(info))
    assert Dataset(root).left_out == {CAMERA: "depth in a video"}


def test_presets_and_sizes(dataset, tmp_path, capsys):
    text = first_config.config_of(Dataset(dataset), preset="act")
    assert robocache.Pipeline(text, backend="cpu").layout[-1]["shape"] == [1, 3, 480, 640]
    with pytest.raises(ValueError, match="expected None with a preset"):
        first_config.config_of(Dataset(dataset), preset="act", resize=(8, 8))
    for wrong in (8, "8x8", (8,), (8.0, 8)):
        with pytest.raises(ValueError, match=r"resize: expected \(height, width\), found"):
            first_config.config_of(Dataset(dataset), resize=wrong)
    out = ["--out", str(tmp_path / "out")]
    assert importing.main([str(dataset), *out, "--preset", "none"]) == 1
    said = capsys.readouterr().err
    assert "\ngenerated configuration:" in said and "preset: expected one of act" in said
    assert not (tmp_path / "out").exists()
    with pytest.raises(SystemExit):
        importing.main([str(dataset), *out, "--preset", "act", "--resize", "8x8"])
    assert "expected --preset or --resize, found both" in capsys.readouterr().err


def test_a_column_of_stamps_has_the_instants(tmp_path):
    stamps = 1_795_000_000_000_000_000 + np.cumsum([0, 33, 34, 40, 20, 33]) * 1_000_000
    root = odd(tmp_path / "dataset", features=STAMP, stamp_ns=stamps)
    (recording,) = recordings(root)
    assert recording.span_ns == (stamps[0], stamps[-1])
    assert [stamp for stamp, _ in read(recording, ["/action"])["/action"]] == stamps.tolist()
    assert "/stamp_ns" not in [name for name, *_ in recording.topics]


def test_a_configuration_of_the_robot_takes_the_stamps_of_the_header(dataset, tmp_path):
    config = tmp_path / "robot.yaml"
    stream = "type: sensor_msgs/JointState, topic: /observation/state, joints: [a], max_age_ms: 50"
    for timeline in ("header", "receive"):
        config.write_text(
            f"rate_hz: 30\nstreams:\n  state: {{{stream}, timeline: {timeline}, strategy: hold}}\n"
        )
        (outcome, *_) = importing.import_dataset(dataset, tmp_path / timeline, config)
        (counts,) = outcome["done"]["inputs"].values()
        assert counts["received"] == outcome["done"]["streams"]["state"]["rows"] == 20
    rows = [
        robocache.EpisodeCache.load(tmp_path / timeline / "rows.zarr")
        for timeline in ("header", "receive")
    ]
    windows = [cache.windows([0], [33_333_333 * 3])["state"] for cache in rows]
    assert all(window.valid.all() for window in windows)
    assert np.array_equal(windows[0].array, windows[1].array)


def test_what_an_episode_is_made_of(dataset, tmp_path):
    root = copied(dataset, tmp_path)
    before = [recording.made_of for recording in recordings(root)]
    assert before == [recording.made_of for recording in recordings(root)]
    assert before != [recording.made_of for recording in recordings(root, tolerance_s=1e-3)]
    encode(video_of(root, 1), [picture(at + 1) for at in range(12)], 30)
    after = [recording.made_of for recording in recordings(root)]
    assert after[0] == before[0] and after[1] != before[1]


def test_episodes_are_chosen(tmp_path):
    root = lerobot_files.write(tmp_path / "dataset", lengths=[2] * 6)

    def numbers(episodes):
        return [each.number for each in importing.chosen(Dataset(root), episodes)]

    assert numbers(None) == [0, 1, 2, 3, 4, 5] and numbers(slice(None, -2)) == [0, 1, 2, 3]
    assert numbers((1, 4)) == [1, 4] and numbers([4, 2]) == [2, 4]
    with pytest.raises(ValueError, match="expected numbers of episodes, 0 to 5, found 6"):
        numbers([1, 6])
    with pytest.raises(ValueError, match="each of 7 ranks, found 6 in all and none for rank 6"):
        importing.chosen(Dataset(root), share=(6, 7))
    assert import_options._numbers("0-2,5") == [0, 1, 2, 5]
    with pytest.raises(argparse.ArgumentTypeError, match="found '2-1'"):
        import_options._numbers("2-1")


def test_splits_are_ranges_of_episodes(tmp_path):
    root = lerobot_files.write(tmp_path / "dataset", lengths=[2] * 5)
    path = root / "meta/info.json"
    info = json.loads(path.read_text())
    info["splits"] = {"train": "0:3", "test": "3:5", "odd": "all"}
    path.write_text(json.dumps(info))
    outcomes = importing.import_dataset(root, tmp_path / "out", split="test", resize=(8, 8))
    names = ["episode_000003", "episode_000004"]
    assert [outcome["done"]["name"] for outcome in outcomes] == names
    splits = json.loads((tmp_path / "out/splits.json").read_text())
    assert splits["test"] == names and len(splits["train"]) == 3 and len(splits) == 2
    with pytest.raises(ValueError, match="expected one of train, test, found the split 'odd'"):
        importing.chosen(Dataset(root), split="odd")
    left_out = Topics(Dataset(root)).left_out
    assert left_out["split odd"] == "expected a range of episodes such as 0:50, found 'all'"


def test_a_dataset_that_says_itself_what_it_has_needs_no_mapping(dataset, tmp_path):
    with pytest.raises(ValueError, match="expected no --mapping, because a LeRobot dataset says"):
        importing.opened(dataset, "bridge")
    assert importing.main([str(dataset), "--write-mapping", str(tmp_path / "m.yaml")]) == 1
    assert not (tmp_path / "m.yaml").exists()
    cache = robocache.EpisodeCache.from_dataset(dataset, tmp_path / "out", resize=(8, 8))
    assert len(cache.episodes) == 2


def test_stamps_are_those_that_a_message_can_have():
    frame_stamps.expect_range([])
    frame_stamps.expect_range([0, 2**31 * 10**9 - 1])
    for wrong in ([2**31 * 10**9], [-1, 5]):
        with pytest.raises(ValueError, match="expected stamps from 1970 to 2038, found"):
            frame_stamps.expect_range(wrong)


#: Streams that take all, a part and nothing of the arrays of frames, each in its own way.
ALIKE = """
rate_hz: 30
lag_ms: 0
defaults: {vector: {max_age_ms: 50, strategy: hold, dtype: f32}, image: {max_age_ms: 50, strategy: hold}}
streams:
  state: {type: sensor_msgs/JointState, topic: /observation/state, joints: [grip, a], fields: [position]}
  half: {type: sensor_msgs/JointState, topic: /observation/state, groups: {one: [b], two: [a, x]}, fields: [position]}
  speed: {type: sensor_msgs/JointState, topic: /action, joints: [a], fields: [velocity]}
  other: {type: sensor_msgs/JointState, topic: /action, joints: [z], fields: [position]}
  first: {type: sensor_msgs/JointState, topic: /action, select: ["position[0]"]}
  image: {type: sensor_msgs/Image, topic: TOP, dtype: u8, image: {resize: {height: 24, width: 32}}}
  size: {type: sensor_msgs/Image, topic: TOP, select: [height, width]}
"""


def test_arrays_give_what_messages_with_their_values_give(both, tmp_path, monkeypatch):
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(Path(__file__).parents[1] / "definitions"))
    config = tmp_path / "robot.yaml"
    config.write_text(ALIKE.replace("TOP", TOP))
    bags = []
    for recording in recordings(both):
        found = [
            (topic, stamp, read_recordings.message(recording, topic, stamp, data))
            for topic, arrays in read(recording).items()
            for stamp, data in arrays
        ]
        bag = tmp_path / recording.name
        bags.append(write_bag(bag, sorted(found, key=lambda entry: entry[1])))
    for form in ("rows", "zarr"):
        ours, theirs = tmp_path / form / "arrays", tmp_path / form / "messages"
        imported = importing.import_dataset(both, ours, config, format=form)
        replayed = robocache.replay_to(bags, config, theirs, format=form)
        for one, other in zip(imported, replayed, strict=True):
            (one,), (other,) = one.values(), other.values()
            for key in ("name", "ticks", "streams", "inputs", "skew", "missing"):
                assert one[key] == other[key], key
        store = "rows.zarr" if form == "rows" else "tensors.zarr"
        # What is no bag has no times of arrival.
        chunks = [path.relative_to(ours) for path in (ours / store).rglob("c.*")]
        assert len(chunks) > 10
        for chunk in chunks:
            assert (ours / chunk).read_bytes() == (theirs / chunk).read_bytes(), chunk


def test_an_array_of_another_size_fails_its_episode(both, tmp_path, monkeypatch):
    """Its numbers would pass for others: pixels of another width are a picture, too."""
    whole = lerobot_recording.Recording.arrays

    def arrays(recording, wanted):
        for batch in whole(recording, wanted):
            yield [(topic, stamp, bytes(data) + bytes(8)) for topic, stamp, data in batch]

    monkeypatch.setattr(lerobot_recording.Recording, "arrays", arrays)
    outcomes = importing.import_dataset(both, tmp_path / "out", resize=(24, 32))
    said = r"topic \d+: expected an array of \d+ bytes, found \d+"
    assert len(outcomes) == 2
    assert all(re.search(said, each["failed"]["error"]) for each in outcomes)


def test_a_dataset_becomes_rows(both, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = [str(both), "--out", str(out), "--resize", "24x32"]
    assert importing.main(arguments) == 0
    assert capsys.readouterr().out == f"{out / 'rows.zarr'}: 2 episodes\n"
    cache = robocache.EpisodeCache.load(out / "rows.zarr")
    with pytest.raises(ValueError, match=r"found the folder of a store: load .*out/rows\.zarr"):
        robocache.EpisodeCache.load(out)
    assert [episode["name"] for episode in cache.episodes] == ["episode_000000", "episode_000001"]
    assert [episode["task"] for episode in cache.episodes] == ["pick", "place"]
    sampler = robocache.WindowSampler.of(cache, period_ns=33_333_333, batch_size=32, shuffle=False)
    episodes, instants_ns, epochs = sampler.batch(epoch=0, number=0)
    windows = cache.windows(episodes, instants_ns, epochs=epochs)
    assert len(episodes) == 32 and all(windows[name].valid.all() for name in windows)
    expected = np.concatenate([frames_of(20, 0)[STATE], frames_of(12, 1)[STATE]])
    assert np.array_equal(windows["state"].array[:, 0], expected)
    images = [image for recording in recordings(both) for image in pixels(recording)]
    for image, row in zip(images, windows["top"].array[:, 0], strict=True):
        resized = Image.fromarray(image).resize((32, 24), Image.Resampling.BILINEAR)
        assert np.array_equal(row.transpose(1, 2, 0), resized)
    # Again: all is kept.
    assert importing.main([*arguments, "--json"]) == 0
    assert [list(outcome) for outcome in json.loads(capsys.readouterr().out)] == [["kept"]] * 2
    # Another generated configuration is not written over it.
    assert importing.main([str(both), "--out", str(out)]) == 1
    assert "found another: give it as --config to use it" in capsys.readouterr().err


def test_a_damaged_episode_is_told(dataset, tmp_path, capsys):
    root = copied(dataset, tmp_path)
    video_of(root).unlink()
    out = tmp_path / "out"
    importing.main([str(root), "--out", str(out)])
    assert "episode_000000.mp4: expected a video, found no such file" in capsys.readouterr().err
    with pytest.raises(
        RuntimeError, match=r"found 1 that could not be read; .*rows\.zarr has the others:"
    ):
        importing.import_rows(root, out)
    with pytest.raises(RuntimeError, match=r"found 1 that could not be read:\nepisode_000000"):
        importing.import_rows(root, tmp_path / "first", episodes=[0])


def test_what_the_configuration_does_not_find_is_told(dataset, tmp_path, capsys):
    text = first_config.config_of(Dataset(dataset))
    config = tmp_path / "robot.yaml"
    config.write_text(text.replace(TOP, "/camera").replace("grip.pos", "grip"))
    arguments = [str(dataset), "--out", str(tmp_path / "out"), "--config", str(config)]
    for _ in range(2):  # the second time, the episodes are kept
        assert importing.main(arguments) == 0
        said = capsys.readouterr().err
        assert said.count("/camera: not in the dataset") == 1
        line = "episode_000001: state /observation/state: 12 of 12 messages dropped: missing_field"
        assert line in said.splitlines()
    with pytest.warns(RuntimeWarning, match="/camera: not in the dataset") as warned:
        robocache.EpisodeCache.from_dataset(dataset, tmp_path / "out", config)
    assert line in str(warned[-1].message)
    assert {each.filename for each in warned} == {__file__}


def test_a_wrong_tolerance_is_an_error(dataset):
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="tolerance_s: expected 0 s or more, found"):
            recordings(dataset, tolerance_s=wrong)


def test_a_cache_with_images(dataset, tmp_path):
    options = {"episodes": [1], "resize": (24, 32), "jobs": 1}
    cache = robocache.EpisodeCache.from_dataset(dataset, tmp_path / "out", **options)
    assert cache.streams["top"]["row_shape"] == [3, 24, 32]
    assert [episode["name"] for episode in cache.episodes] == ["episode_000001"]
