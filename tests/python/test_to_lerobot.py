"""`robocache to-lerobot`: the files of a dataset, and what becomes of failures. No LeRobot is needed.

What LeRobot reads of them, and trains on, is tested in torch/test_lerobot.py.
"""

import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
# A pyarrow that is there may want another NumPy than the ROS in use has.
for needed in ("av", "mcap", "pyarrow", "rosbags", "zarr"):
    pytest.importorskip(needed, exc_type=ImportError)
import av  # noqa: E402 (what is missing is said first)
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import robots  # noqa: E402
from same_files import expect_same  # noqa: E402

from robocache.lerobot import EpisodesFailed, join, to_lerobot  # noqa: E402
from robocache.lerobot import episode as writer_of_episodes  # noqa: E402
from robocache.lerobot import files as dataset_files  # noqa: E402
from robocache.lerobot.cli import main  # noqa: E402
from robocache.lerobot.files import DatasetWriter  # noqa: E402
from robocache.lerobot.run import _tensors  # noqa: E402
from robocache.lerobot.tensors import Tensors  # noqa: E402
from robocache.node import replay_command  # noqa: E402

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*(are left out|steps valid):RuntimeWarning"),
]
IMAGE = "observation.images.image_left"


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    """A folder with two bags, their tasks, a configuration, and the tensors of each episode."""
    folder = tmp_path_factory.mktemp("robot")
    return folder, robots.robot_of(folder)


def files_of(out, kind):
    return sorted(out.glob(f"{kind}/*/*.parquet"))


def rows_of(out, kind="data"):
    """The rows of all files of a kind, in their order."""
    return pa.concat_tables([pq.read_table(path) for path in files_of(out, kind)])


def tasks_of(out):
    return pq.read_table(out / "meta/tasks.parquet")["task"].to_pylist()


def export(folder, out, **options):
    """A dataset of all ticks of both bags, in three episodes."""
    options = {"keep_invalid": True, **options}
    listed = [f"--episodes={folder / 'episodes.csv'}"]
    return to_lerobot(
        [folder / "bags"], folder / "robot.yaml", out, replay_options=listed, **options
    )


def pixels_of(tensors):
    """The images [image, height, width, 3]."""
    return np.stack([tensor["image_left"].array[-1].transpose(1, 2, 0) for tensor in tensors])


def test_every_column_has_the_values_of_the_store(robot, tmp_path):
    folder, tensors = robot
    out = tmp_path / "dataset"
    assert export(folder, out, images=True) == (3, sum(map(len, tensors)))
    store = [f"--episodes={folder / 'episodes.csv'}", "--format=zarr", "--bf16=f32"]
    robots.replay([folder / "bags"], folder / "robot.yaml", tmp_path / "zarr", *store)
    stored, rows = Tensors(tmp_path / "zarr/tensors.zarr"), rows_of(out)
    number = len(rows)
    for column, name, step in (
        ("tick", "tick", None),
        ("stamp_ns", "stamp_ns", None),
        ("recorded_ns", "recorded_ns", None),
        ("epoch", "epoch", None),
        ("observation.state", "joints", 2),
        ("valid.joints", "joints.valid", 2),
        ("age_ns.joints", "joints.age_ns", 2),
        ("target_ns.joints", "joints.target_ns", 2),
        ("observation.grid", "grid", 0),
        ("observation.cells", "cells", 0),
        ("observation.cells.coordinates", "cells.coordinates", 0),
        ("count.cells", "cells.count", 0),
    ):
        got = np.array(rows[column].to_pylist())
        assert np.array_equal(got, stored.read(name, 0, number, step)), column
    starts = robots.T0, robots.T0 + 3600 * 10**9
    wanted = [
        robots.commanded(tensor, start)
        for start, of in zip(starts, tensors, strict=True)
        for tensor in of
    ]
    assert np.array_equal(np.array(rows["action"].to_pylist()), [values for values, _ in wanted])
    for kind, known in zip(
        ("valid", "age_ns", "target_ns"), zip(*[k for _, k in wanted]), strict=True
    ):
        assert rows[f"{kind}.action"].to_pylist() == list(known), kind
    files = [row["bytes"] for row in rows[IMAGE].to_pylist()]
    decoded = np.stack([np.array(png(file)) for file in files])
    assert np.array_equal(decoded, pixels_of([*tensors[0], *tensors[1]]))
    assert rows["task_index"].to_pylist() == [0] * len(tensors[0]) + [1] * len(tensors[1])
    assert tasks_of(out) == ["pick it", "put it"]
    columns = json.loads((out / "meta/robocache.json").read_text())["columns"]
    assert {key: column["steps"] for key, column in columns.items()} == {
        "observation.state": {"joints": 2},
        "action": {"action": 0},
        IMAGE: {"image_left": 0},
        "observation.grid": {"grid": 0},
        "observation.cells": {"cells": 0},
        "observation.cells.coordinates": {"cells.coordinates": 0},
    }
    assert columns["action"]["names"] == ["a.position", "b.position", "g.position"]


def png(data):
    with av.open(io.BytesIO(data), format="png_pipe") as file:
        return next(file.decode(video=0)).to_ndarray(format="rgb24")


@pytest.mark.parametrize("codec", ["libsvtav1", "h264", "hevc"])
def test_a_video_has_the_images_at_their_times(robot, tmp_path, codec):
    folder, tensors = robot
    out = tmp_path / "dataset"
    export(folder, out, codec=codec, crf=20)
    expected = [tensors[0], *robots.runs(tensors[1])]
    episodes = rows_of(out, "meta/episodes").to_pylist()
    with av.open(str(out / f"videos/{IMAGE}/chunk-000/file-000.mp4")) as file:
        frames = {round(frame.time * robots.RATE_HZ): frame for frame in file.decode(video=0)}
    assert sorted(frames) == list(range(sum(map(len, expected))))
    for episode, played in zip(episodes, expected, strict=True):
        first, end = (
            round(episode[f"videos/{IMAGE}/{edge}_timestamp"] * robots.RATE_HZ)
            for edge in ("from", "to")
        )
        assert (first, end - first) == (episode["dataset_from_index"], len(played))
        decoded = np.stack([frames[at].to_ndarray(format="rgb24") for at in range(first, end)])
        # The first images are not valid yet.
        errors = (decoded.astype(float) - pixels_of(played))[3:]
        psnr = 10 * np.log10(255**2 / np.mean(np.square(errors)))
        print(f"PSNR of {codec} at crf 20: {psnr:.1f} dB")
        assert psnr > 35
    info = json.loads((out / "meta/info.json").read_text())["features"][IMAGE]["info"]
    assert (info["video.codec"], info["video.crf"]) == (codec.replace("libsvt", ""), 20)


@pytest.mark.parametrize("images", [True, False])
def test_shares_join_to_the_bytes_of_one_run(robot, tmp_path, monkeypatch, images):
    folder, _ = robot
    for limit in ("DATA_MB", "VIDEO_MB"):
        monkeypatch.setattr(dataset_files, limit, 0.001)
    monkeypatch.setattr(dataset_files, "CHUNK_FILES", 2)
    listed = [f"--episodes={folder / 'episodes.csv'}"]
    shares = [tmp_path / name for name in ("one", "two", "none")]
    for number, out in enumerate(shares, start=1):
        options = [*listed, f"--share={number}/{len(shares)}"]
        given = {"images": images, "keep_invalid": True, "replay_options": options}
        to_lerobot([folder / "bags"], folder / "robot.yaml", out, **given)
    alone, joined = tmp_path / "alone", tmp_path / "joined"
    counts = export(folder, alone, images=images)
    assert join(shares, joined) == counts and counts[0] == 3
    expect_same(joined, alone)
    # A file for each episode, two in a folder.
    places = [(path.parent.name, path.name) for path in files_of(alone, "data")]
    of_chunk = [("chunk-000", "file-000"), ("chunk-000", "file-001"), ("chunk-001", "file-000")]
    assert places == [(chunk, f"{file}.parquet") for chunk, file in of_chunk]
    # A dataset that is joined already has several episodes in a file.
    monkeypatch.undo()
    once, twice = tmp_path / "once", tmp_path / "twice"
    join(shares, once)
    join([once], twice)
    expect_same(twice, once)
    assert len(files_of(once, "data")) == 1
    if not images:
        videos = sorted(alone.glob("videos/*/*/*.mp4"))
        assert [(path.parent.name, path.stem) for path in videos] == of_chunk


@pytest.mark.parametrize("images", [True, False])
def test_an_episode_is_read_in_parts(robot, tmp_path, monkeypatch, images):
    folder, _ = robot
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    export(folder, whole, images=images)
    monkeypatch.setattr(writer_of_episodes, "_HELD", 8_000)
    export(folder, parts, images=images)
    assert rows_of(parts).equals(rows_of(whole))
    groups = [pq.ParquetFile(files_of(out, "data")[0]).num_row_groups for out in (whole, parts)]
    assert groups[0] == 3 and groups[1] > 6
    got, wanted = (json.loads((out / "meta/stats.json").read_text()) for out in (parts, whole))
    for key, stats in wanted.items():
        for name, value in stats.items():
            np.testing.assert_allclose(got[key][name], value, rtol=1e-9, atol=1e-9)


def test_invalid_ticks_are_left_out(robot, tmp_path):
    folder, tensors = robot
    config = tmp_path / "robot.yaml"
    config.write_text(robots.CONFIG.replace("    required: true\n", ""))
    bags, out = [folder / "bags" / "place"], tmp_path / "dataset"
    played = robots.tensors(robots.replay(bags, config, tmp_path / "mcap") / "place.mcap")
    # A command is there at each tick, and no policy needs a grid.
    streams = ("joints", "image_left")
    valid = [tensor for tensor in played if all(tensor[name].valid[-1] for name in streams)]
    assert 0 < len(valid) < len(played) - 3
    episodes, frames = to_lerobot(bags, config, out, images=True, min_frames=1)
    assert (episodes, frames) == (len(robots.runs(valid)), len(valid)) and episodes == 2
    assert rows_of(out)["tick"].to_pylist() == [tensor.tick for tensor in valid]


def test_a_dataset_is_on_the_disk_before_it_has_its_name(robot, tmp_path, monkeypatch):
    folder, _ = robot
    synced, fsync = set(), os.fsync
    alone, joined = tmp_path / "alone", tmp_path / "joined"

    def recorded(file):
        fsync(file)
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        is_named = alone.exists(), joined.exists()
        synced.add((path.stat().st_ino, is_named))

    monkeypatch.setattr(os, "fsync", recorded)
    bags = [folder / "bags" / "pick"]
    to_lerobot(bags, folder / "robot.yaml", alone, images=True)
    join([alone], joined)
    for dataset, before, after in (
        (alone, (False, False), (True, False)),
        (joined, (True, False), (True, True)),
    ):
        paths = [dataset, *dataset.rglob("*")]
        assert len(paths) > 5
        assert not [path for path in paths if (path.stat().st_ino, before) not in synced]
        assert (tmp_path.stat().st_ino, after) in synced


def test_an_interrupted_run_leaves_no_dataset(robot, tmp_path, monkeypatch):
    folder, _ = robot
    arguments = [[folder / "bags"], folder / "robot.yaml", tmp_path / "dataset"]
    end, ended = DatasetWriter.end, []

    def interrupted(writer, *statistics):
        if ended:
            raise KeyboardInterrupt
        ended.append(end(writer, *statistics))

    with monkeypatch.context() as patch:
        patch.setattr(DatasetWriter, "end", interrupted)
        with pytest.raises(KeyboardInterrupt):
            to_lerobot(*arguments, images=True, min_frames=1)
    assert not (tmp_path / "dataset").exists()
    assert to_lerobot(*arguments, images=True, min_frames=1, task="tidy up")[0] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset"]
    assert tasks_of(tmp_path / "dataset") == ["tidy up"]
    with pytest.raises(ValueError, match="does not exist yet"):
        to_lerobot(*arguments)


@pytest.mark.parametrize(
    "change, options, expected",
    [
        (("    dtype: u8\n", ""), {}, "expected dtype u8.*found f32.*image_left:\n    dtype: u8"),
        (None, {"state": ["grid"]}, "--state: expected streams of vectors .joints, action., found"),
        (None, {"state": ["action"], "action": ["action"]}, "the state or the action, found both"),
        (None, {"replay_options": ["--rate-hz=12.5"]}, "whole number of ticks.*12.5.*--rate-hz"),
        (None, {"codec": "mpeg2"}, "--codec: expected libsvtav1, h264, hevc, found 'mpeg2'"),
        (None, {"codec": "h264", "crf": 63}, "--crf: expected 0 to 51 for h264, found 63"),
        (("width: 96", "width: 95"), {}, "even height and width for a video, found 64 x 95"),
    ],
)
def test_what_does_not_fit_is_an_error(robot, tmp_path, change, options, expected):
    folder, _ = robot
    config = tmp_path / "robot.yaml"
    config.write_text(robots.CONFIG.replace(*change) if change else robots.CONFIG)
    with pytest.raises(ValueError, match=f"(?s){expected}"):
        to_lerobot([folder / "bags" / "pick"], config, tmp_path / "dataset", **options)
    assert not (tmp_path / "dataset").exists()


def test_a_configuration_that_is_corrected_makes_the_tensors_again(robot, tmp_path):
    folder, _ = robot
    config, out = tmp_path / "robot.yaml", tmp_path / "dataset"
    bags = [folder / "bags" / "pick"]
    config.write_text(robots.CONFIG.replace("    dtype: u8\n", ""))
    with pytest.raises(ValueError, match="expected dtype u8"):
        to_lerobot(bags, config, out)
    config.write_text(robots.CONFIG)
    assert to_lerobot(bags, config, out, images=True)[0] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset", "robot.yaml"]


def test_an_episode_that_fails_is_left_out_and_told(robot, tmp_path, capfd, monkeypatch):
    folder, _ = robot
    wrong, out = tmp_path / "wrong.mcap", tmp_path / "dataset"
    wrong.write_bytes(b"no bag")
    bags = [str(folder / "bags" / "pick"), str(wrong)]
    arguments = [*bags, "--config", str(folder / "robot.yaml"), "--out", str(out), "--images"]
    arguments.append("--min-frames=1")
    assert main(arguments) == 1
    said = capfd.readouterr()
    assert "wrong: failed: " in said.err and "the dataset has the others" in said.err
    frames = len(rows_of(out))
    assert said.out.splitlines()[0] == f"{out}: 1 episodes, {frames} frames" and frames > 30

    def episodes():
        about = json.loads((out / "meta/robocache.json").read_text())
        return [episode["name"] for episode in about["episodes"]]

    assert episodes() == ["pick"]
    # When its bag is repaired, it alone is replayed.
    (file,) = (folder / "bags" / "place").glob("*.mcap")
    shutil.copyfile(file, wrong)
    replay, kinds = replay_command.replay, []

    def spied(*places, **options):
        code, outcomes = replay(*places, **options)
        kinds.extend(kind for outcome in outcomes for kind in outcome)
        return code, outcomes

    monkeypatch.setattr(replay_command, "replay", spied)
    assert main([*arguments, "--replace"]) == 0 and kinds == ["kept", "done"]
    assert episodes() == ["pick", "wrong", "wrong"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset", "wrong.mcap"]


def test_without_an_episode_there_is_no_dataset(robot, tmp_path):
    folder, _ = robot
    wrong, out = tmp_path / "wrong.mcap", tmp_path / "dataset"
    wrong.write_bytes(b"no bag")
    with pytest.raises(EpisodesFailed, match="so there is no dataset:\nwrong: failed") as failed:
        to_lerobot([wrong], folder / "robot.yaml", out)
    assert (failed.value.episodes, failed.value.frames) == (0, 0) and not out.exists()


def test_only_a_store_of_these_episodes_becomes_a_dataset(robot, tmp_path):
    folder, _ = robot
    bag, config = folder / "bags" / "pick", folder / "robot.yaml"
    robots.replay([bag], config, tmp_path, "--format=zarr", "--bf16=f32")
    pick, failed = {"kept": {"name": "pick"}}, {"failed": {"name": "place", "error": "no bag"}}
    assert _tensors(tmp_path, 1, [pick, failed]).about["episodes"][0]["name"] == "pick"
    assert _tensors(tmp_path, 1, [failed]) is None
    other, stopped = {"done": {"name": "other"}}, {"stopped": {"name": "place"}}
    for code, outcomes in ((1, [pick]), (1, [other, failed]), (1, [pick, other, failed])):
        with pytest.raises(RuntimeError, match="expected a store of the tensors"):
            _tensors(tmp_path, code, outcomes)
    with pytest.raises(RuntimeError, match="the replay was stopped.*\nplace: stopped"):
        _tensors(tmp_path, 1, [pick, stopped])
    # A part that waits says that the store is an older one.
    (tmp_path / "tensors.zarr.parts/pick").mkdir(parents=True)
    with pytest.raises(RuntimeError, match="expected a store of the tensors"):
        _tensors(tmp_path, 1, [pick, failed])
