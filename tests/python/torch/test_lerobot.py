"""`robocache to-lerobot`: LeRobot's loader returns what replay computed, and its trainer trains on it.

What is expected is read from the MCAP files of `robocache replay`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bags import T0

pytest.importorskip("lerobot")
import robots  # noqa: E402 (LeRobot comes first)
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402

import robocache  # noqa: E402
from robocache import _command  # noqa: E402
from robocache.lerobot import EpisodesFailed, _tensors, join, main, to_lerobot  # noqa: E402

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    """A folder with two bags, their tasks, a configuration, and the tensors of each episode."""
    folder = tmp_path_factory.mktemp("robot")
    robots.record(folder / "bags" / "pick", seed=1)
    later = T0 + 3600 * 10**9
    robots.record(folder / "bags" / "place", seed=2, start=later, silence=(0.8, 1.3))
    (folder / "robot.yaml").write_text(robots.CONFIG)
    (folder / "episodes.csv").write_text("bag,start,end,task\npick,0,2,pick it\nplace,0,2,put it\n")
    listed = ["--episodes", folder / "episodes.csv"]
    out = robots.replay([folder / "bags"], folder / "robot.yaml", folder / "mcap", *listed)
    names = ("pick-0000", "place-0000")
    return folder, [robots.tensors(out / f"{name}.mcap") for name in names]


@pytest.fixture(scope="module", params=["images", "videos"])
def written(request, robot, tmp_path_factory):
    """A dataset, its episodes as lists of tensors, and whether its images are lossless."""
    folder, tensors = robot
    out = tmp_path_factory.mktemp(request.param) / "dataset"
    is_lossless = request.param == "images"
    episodes, frames = to_lerobot(
        [folder / "bags"],
        folder / "robot.yaml",
        out,
        images=is_lossless,
        crf=20,
        robot_type="small",
        replay_options=[f"--episodes={folder / 'episodes.csv'}"],
    )
    expected = [tensors[0], *runs(tensors[1])]
    assert (episodes, frames) == (3, sum(map(len, expected)))
    return out, expected, is_lossless


def runs(tensors):
    """The parts of an episode in which each tick follows the one before."""
    numbers = np.array([tensor.tick for tensor in tensors])
    cuts = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
    edges = [0, *cuts, len(tensors)]
    return [tensors[first:end] for first, end in zip(edges, edges[1:], strict=False)]


def load(out, **options):
    return LeRobotDataset("local/dataset", root=out, video_backend="pyav", **options)


def present(tensor, name):
    """The newest values of a stream, valid, age and target: the streams look at no horizon."""
    segment = tensor[name]
    return segment.float32()[-1], (segment.valid[-1], segment.age_ns[-1], segment.target_ns[-1])


def test_the_loader_returns_what_was_written(written):
    out, expected, is_lossless = written
    dataset = load(out)
    assert (dataset.fps, dataset.meta.robot_type) == (robots.RATE_HZ, "small")
    assert dataset.meta.names["action"] == ["a.position", "b.position", "g.position"]
    frames = [
        (episode, at, tensor)
        for episode, tensors in enumerate(expected)
        for at, tensor in enumerate(tensors)
    ]
    assert len(dataset) == len(frames)
    errors = []
    for number, (episode, at, tensor) in enumerate(frames):
        item = dataset[number]
        where = [int(item[key]) for key in ("episode_index", "frame_index", "index")]
        assert where == [episode, at, number]
        assert (int(item["tick"]), int(item["stamp_ns"])) == (tensor.tick, tensor.stamp_ns)
        assert item["task"] == ("pick it" if episode == 0 else "put it")
        streams = {
            "observation.state": ("joints", "joints"),
            "action": ("action", "action"),
            "observation.grid": ("grid", "grid"),
            "observation.cells": ("cells", "cells"),
        }
        for key, (stream, extra) in streams.items():
            values, known = present(tensor, stream)
            assert item[key].numpy().tobytes() == values.tobytes(), key
            got = [item[f"{kind}.{extra}"].item() for kind in ("valid", "age_ns", "target_ns")]
            assert got == list(known), key
        coordinates = tensor["cells.coordinates"].array[-1]
        assert np.array_equal(item["observation.cells.coordinates"], coordinates)
        assert int(item["count.cells"]) == tensor["cells"].count[-1]
        assert bool(item["valid.img_left"]) == tensor["image_left"].valid[-1]
        shown = item["observation.images.image_left"].numpy() * 255
        errors.append(np.abs(shown - tensor["image_left"].array[-1]))
    if is_lossless:
        assert np.max(errors) < 1e-4
    else:
        valid = [error for error, frame in zip(errors, frames, strict=True) if frame[1] > 2]
        psnr = 10 * np.log10(255**2 / np.mean(np.square(valid)))
        print(f"PSNR of libsvtav1 at crf 20: {psnr:.1f} dB")
        assert psnr > 35


def test_histories_by_delta_timestamps(written):
    out, expected, _ = written
    before, ahead = [-2 / robots.RATE_HZ, 0], [0, 1 / robots.RATE_HZ, 2 / robots.RATE_HZ]
    dataset = load(out, delta_timestamps={"observation.state": before, "action": ahead})
    number = 0
    for tensors in expected:
        for at in range(len(tensors)):
            item = dataset[number + at]
            for key, stream, steps in (
                ("observation.state", "joints", (-2, 0)),
                ("action", "action", (0, 1, 2)),
            ):
                wanted = [at + step for step in steps]
                inside = np.clip(wanted, 0, len(tensors) - 1)
                rows = np.stack([present(tensors[k], stream)[0] for k in inside])
                assert item[key].numpy().tobytes() == rows.tobytes()
                assert item[f"{key}_is_pad"].tolist() == [
                    k != c for k, c in zip(wanted, inside, strict=True)
                ]
        number += len(tensors)


def test_a_gap_ends_an_episode(written):
    out, expected, _ = written
    dataset = load(out)
    stamps = np.array([int(row) for row in dataset.hf_dataset["stamp_ns"]])
    episodes = np.array([int(row) for row in dataset.hf_dataset["episode_index"]])
    steps = np.diff(stamps)
    assert np.all(steps[np.diff(episodes) == 0] == robots.PERIOD)
    assert len(expected) == 3 and steps[np.diff(episodes) != 0].min() > 400_000_000
    about = json.loads((out / "meta/robocache.json").read_text())
    assert about["configuration"] == robots.CONFIG
    trained = robocache.contract.load(out)
    assert trained.streams == ["cells", "grid", "image_left", "joints"]
    assert trained.differences(robocache.contract.of(robots.CONFIG)) == []
    made_of = [(part["name"], part["first_tick"], part["ticks"]) for part in about["episodes"]]
    names = ["pick-0000", "place-0000", "place-0000"]
    assert made_of == [
        (name, tensors[0].tick, len(tensors)) for name, tensors in zip(names, expected, strict=True)
    ]


def test_statistics_are_those_of_numpy(written):
    out, expected, _ = written
    stats = load(out).meta.stats
    for key, stream in (("observation.state", "joints"), ("action", "action")):
        rows = [present(tensor, stream)[0] for tensors in expected for tensor in tensors]
        rows = np.array(rows, np.float64)
        assert stats[key]["count"] == len(rows)
        for name in ("min", "max", "mean", "std"):
            np.testing.assert_allclose(stats[key][name], getattr(rows, name)(axis=0), atol=1e-5)
    assert stats["observation.images.image_left"]["mean"].shape == (3, 1, 1)


def test_invalid_ticks_are_left_out(robot, tmp_path):
    folder, tensors = robot
    config = tmp_path / "robot.yaml"
    config.write_text(robots.CONFIG.replace("    required: true\n", ""))
    bags, out = [folder / "bags" / "place"], tmp_path / "dataset"
    played = robots.tensors(robots.replay(bags, config, tmp_path / "mcap") / "place.mcap")
    streams = ("joints", "image_left", "action", "grid", "cells")
    valid = [tensor for tensor in played if all(tensor[name].valid[-1] for name in streams)]
    assert 0 < len(valid) < len(played) - 3
    episodes, frames = to_lerobot(bags, config, out, images=True, drop_invalid=True)
    assert (episodes, frames) == (len(runs(valid)), len(valid)) and episodes == 2
    ticks = [int(row) for row in load(out).hf_dataset["tick"]]
    assert ticks == [tensor.tick for tensor in valid]


def test_streams_that_are_no_images_may_be_called_so(robot, tmp_path):
    folder, _ = robot
    config, out = tmp_path / "robot.yaml", tmp_path / "dataset"
    text = robots.CONFIG.replace("  grid:\n", "  image_grid:\n")
    text = text.replace("  cells:\n", "  cells_of_image:\n")
    text = text.replace("  joints:\n", "  image_joints:\n")
    config.write_text(text)
    bags = [folder / "bags" / "pick"]
    played = robots.tensors(robots.replay(bags, config, tmp_path / "mcap") / "pick.mcap")
    counts = to_lerobot(bags, config, out, images=True, state=[])
    assert counts == (1, len(played))
    # A cluster joins datasets, which LeRobot checks again.
    assert join([out], tmp_path / "joined") == counts
    columns = {
        "img_grid": "image_grid",
        "img_joints": "image_joints",
        "cells_of_img": "cells_of_image",
        "cells_of_img.coordinates": "cells_of_image.coordinates",
    }
    for at in (0, len(played) - 1):
        item = load(out)[at]
        for column, stream in columns.items():
            values = present(played[at], stream)[0]
            assert np.array_equal(item[f"observation.{column}"], values)
        assert bool(item["valid.img_grid"]) == played[at]["image_grid"].valid[-1]


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
    save, saved = LeRobotDataset.save_episode, []

    def interrupted(dataset, **options):
        if saved:
            raise KeyboardInterrupt
        saved.append(save(dataset, **options))

    with monkeypatch.context() as patch:
        patch.setattr(LeRobotDataset, "save_episode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            to_lerobot(*arguments, images=True)
    assert not (tmp_path / "dataset").exists()
    assert to_lerobot(*arguments, images=True, task="tidy up")[0] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset"]
    assert load(tmp_path / "dataset")[0]["task"] == "tidy up"
    with pytest.raises(ValueError, match="does not exist yet"):
        to_lerobot(*arguments)


@pytest.mark.parametrize(
    "change, options, expected",
    [
        (("    dtype: u8\n", ""), {}, "expected dtype u8.*found f32.*image_left:\n    dtype: u8"),
        (None, {"state": ["grid"]}, "--state: expected streams of vectors .joints, action., found"),
        (None, {"state": ["action"], "action": ["action"]}, "the state or the action, found both"),
        (None, {"replay_options": ["--rate-hz=12.5"]}, "whole number of ticks.*12.5.*--rate-hz"),
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
    assert main(arguments) == 1
    said = capfd.readouterr()
    assert "wrong: failed: " in said.err and "the dataset has the others" in said.err
    assert said.out == f"{out}: 1 episodes, {len(load(out))} frames\n" and len(load(out)) > 30

    def episodes():
        about = json.loads((out / "meta/robocache.json").read_text())
        return [episode["name"] for episode in about["episodes"]]

    assert episodes() == ["pick"]
    # When its bag is repaired, it alone is replayed.
    (file,) = (folder / "bags" / "place").glob("*.mcap")
    shutil.copyfile(file, wrong)
    shutil.rmtree(out)
    replay, kinds = _command.replay, []

    def spied(*given):
        code, outcomes = replay(*given)
        kinds.extend(kind for outcome in outcomes for kind in outcome)
        return code, outcomes

    monkeypatch.setattr(_command, "replay", spied)
    assert main(arguments) == 0 and kinds == ["kept", "done"]
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


def test_lerobot_trains_on_it(written, tmp_path):
    out, _, _ = written
    command = [sys.executable, "-m", "lerobot.scripts.lerobot_train"]
    command += ["--dataset.repo_id=local/dataset", f"--dataset.root={out}"]
    command += ["--dataset.video_backend=pyav", "--policy.type=act", "--policy.device=cpu"]
    command += ["--policy.pretrained_backbone_weights=null", "--policy.push_to_hub=false"]
    command += ["--policy.chunk_size=8", "--policy.n_action_steps=8", "--policy.dim_model=32"]
    command += ["--policy.n_heads=2", "--policy.dim_feedforward=32", "--policy.latent_dim=8"]
    command += ["--policy.n_encoder_layers=1", "--policy.n_vae_encoder_layers=1"]
    command += ["--batch_size=2", "--steps=10", "--num_workers=0", "--log_freq=1"]
    command += ["--save_checkpoint=false", f"--output_dir={tmp_path / 'run'}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=500)
    said = run.stdout + run.stderr
    assert run.returncode == 0, said[-4000:]
    assert "step:10 " in said and "loss:nan" not in said
