"""`robocache to-lerobot`: LeRobot's loader returns what replay computed, and its trainer trains on it.

What is expected is read from the MCAP files of `robocache replay`. LeRobot is 0.4.4 or 0.6.1.
"""

import json
import sys

import numpy as np
import pytest
import waiting

pytest.importorskip("lerobot")
import datasets  # noqa: E402 (what is missing is said first)
import robots  # noqa: E402
from lerobot.datasets.compute_stats import aggregate_stats, get_feature_stats  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402

import robocache  # noqa: E402
from robocache.lerobot import join, to_lerobot  # noqa: E402

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    """A folder with two bags, their tasks, a configuration, and the tensors of each episode."""
    folder = tmp_path_factory.mktemp("robot")
    return folder, robots.robot_of(folder)


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
        keep_invalid=True,
        crf=20,
        robot_type="small",
        replay_options=[f"--episodes={folder / 'episodes.csv'}"],
    )
    expected = [tensors[0], *robots.runs(tensors[1])]
    assert (episodes, frames) == (3, sum(map(len, expected)))
    return out, expected, is_lossless


def action_of(expected, tensor):
    """The action of a frame, as of `robots.commanded`; the bag of the first episode begins an hour before the others'."""
    is_first = tensor.stamp_ns < expected[1][0].stamp_ns
    return robots.commanded(tensor, robots.T0 + (0 if is_first else 3600 * 10**9))


def load(out, **options):
    return LeRobotDataset("local/dataset", root=out, video_backend="pyav", **options)


def test_the_loader_returns_what_was_written(written):
    out, expected, is_lossless = written
    dataset = load(out)
    assert (dataset.fps, dataset.meta.robot_type) == (robots.RATE_HZ, "small")
    assert dataset.meta.names["action"] == ["a.position", "b.position", "g.position"]
    # Other programs find the same types in the files.
    (file,) = out.glob("data/*/*.parquet")
    alone = datasets.Dataset.from_parquet(str(file), cache_dir=str(out.parent / "cache"))
    assert alone.features == dataset.hf_dataset.features
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
            "observation.grid": ("grid", "grid"),
            "observation.cells": ("cells", "cells"),
        }
        for key, (stream, extra) in streams.items():
            values, known = robots.present(tensor, stream)
            assert item[key].numpy().tobytes() == values.tobytes(), key
            got = [item[f"{kind}.{extra}"].item() for kind in ("valid", "age_ns", "target_ns")]
            assert got == list(known), key
        values, known = action_of(expected, tensor)
        assert item["action"].numpy().tobytes() == values.tobytes()
        got = [item[f"{kind}.action"].item() for kind in ("valid", "age_ns", "target_ns")]
        assert got == list(known)
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
            for key, steps in (("observation.state", (-2, 0)), ("action", (0, 1, 2))):
                wanted = [at + step for step in steps]
                inside = np.clip(wanted, 0, len(tensors) - 1)
                rows = np.stack([values_of(expected, tensors[k], key) for k in inside])
                assert item[key].numpy().tobytes() == rows.tobytes()
                assert item[f"{key}_is_pad"].tolist() == [
                    k != c for k, c in zip(wanted, inside, strict=True)
                ]
        number += len(tensors)


def values_of(expected, tensor, key):
    if key == "action":
        return action_of(expected, tensor)[0]
    return robots.present(tensor, "joints")[0]


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
    for key in ("observation.state", "action"):
        rows = np.array(
            [values_of(expected, tensor, key) for tensors in expected for tensor in tensors],
            np.float64,
        )
        stream = "joints" if key == "observation.state" else "action"
        valid = np.array(load(out).hf_dataset.with_format("numpy")[f"valid.{stream}"], bool)
        assert stats[key]["count"] == valid.sum()
        rows = rows[valid]
        for name in ("min", "max", "mean", "std"):
            np.testing.assert_allclose(stats[key][name], getattr(rows, name)(axis=0), atol=1e-5)
        for name, share in {"q01": 0.01, "q50": 0.5, "q99": 0.99}.items():
            np.testing.assert_allclose(
                stats[key][name], np.quantile(rows, share, axis=0), rtol=1e-6
            )


def test_statistics_are_those_of_lerobot(written):
    out, expected, is_lossless = written
    dataset = load(out)
    rows = {key: np.array(dataset.hf_dataset.with_format("numpy")[key]) for key in numbers(dataset)}
    columns = json.loads((out / "meta/robocache.json").read_text())["columns"]

    def valid(key, of):
        """Only valid values count."""
        use = np.ones(of.stop - of.start, bool)
        for name in columns.get(key, {"steps": ()})["steps"]:
            use &= rows[f"valid.{name.split('.')[0].replace('image', 'img')}"][of]
        return use

    episodes, first = [], 0
    for tensors in expected:
        of = slice(first, first := first + len(tensors))
        # In float32 or float64, as LeRobot 0.6 computes: 0.4 lets the squares of small integers overflow.
        found = {
            key: get_feature_stats(
                values[of][valid(key, of)].astype(np.result_type(values.dtype, np.float32)),
                0,
                values.ndim == 1,
            )
            for key, values in rows.items()
        }
        pixels = np.stack([tensor["image_left"].array[-1] for tensor in tensors])
        pixels = pixels[valid("observation.images.image_left", of)]
        stats = get_feature_stats(pixels.astype(np.float32), (0, 2, 3), True)
        found["observation.images.image_left"] = {
            name: value if name == "count" else value[0] / 255 for name, value in stats.items()
        }
        episodes.append(found)
    wanted = aggregate_stats(episodes)
    assert dataset.meta.stats.keys() == wanted.keys()
    for key, stats in wanted.items():
        assert dataset.meta.stats[key].keys() == stats.keys()
        for name, value in stats.items():
            got = dataset.meta.stats[key][name]
            assert got.shape == value.shape, (key, name)
            if name.startswith("q"):
                continue  # LeRobot has means of those of the episodes, or bounds: test_lerobot_stats.py
            # LeRobot subtracts squares, which leaves no digits of large numbers such as nanoseconds.
            if name != "std" or np.all(stats["mean"] ** 2 < 1e6 * (value**2 + 1)):
                # It sums many pixels in float32.
                near = 1e-3 if key == "observation.images.image_left" else 1e-4
                np.testing.assert_allclose(
                    got, value, rtol=1e-5, atol=near, err_msg=f"{key} {name}"
                )


def numbers(dataset):
    """The columns that are no images."""
    return [
        key for key, of in dataset.meta.features.items() if of["dtype"] not in ("image", "video")
    ]


def test_streams_that_are_no_images_may_be_called_so(robot, tmp_path):
    folder, _ = robot
    config, out = tmp_path / "robot.yaml", tmp_path / "dataset"
    text = robots.CONFIG.replace("  grid:\n", "  image_grid:\n")
    text = text.replace("  cells:\n", "  cells_of_image:\n")
    text = text.replace("  joints:\n", "  image_joints:\n")
    config.write_text(text)
    bags = [folder / "bags" / "pick"]
    played = robots.tensors(robots.replay(bags, config, tmp_path / "mcap") / "pick.mcap")
    counts = to_lerobot(bags, config, out, images=True, keep_invalid=True, state=[])
    assert counts == (1, len(played))
    assert join([out], tmp_path / "joined") == counts
    # LeRobot checks the shapes of what it takes for images when it joins datasets.
    aggregate_stats([load(tmp_path / "joined").meta.stats])
    columns = {
        "img_grid": "image_grid",
        "img_joints": "image_joints",
        "cells_of_img": "cells_of_image",
        "cells_of_img.coordinates": "cells_of_image.coordinates",
    }
    for at in (0, len(played) - 1):
        item = load(out)[at]
        for column, stream in columns.items():
            values = robots.present(played[at], stream)[0]
            assert np.array_equal(item[f"observation.{column}"], values)
        assert bool(item["valid.img_grid"]) == played[at]["image_grid"].valid[-1]


#: Small networks without weights of a hub.
POLICIES = {
    "act": "chunk_size=8 n_action_steps=8 dim_model=32 n_heads=2 dim_feedforward=32 latent_dim=8 "
    "n_encoder_layers=1 n_vae_encoder_layers=1",
    "diffusion": "down_dims=[16,32] crop_shape=null",
}


@pytest.mark.parametrize("policy", POLICIES)
def test_lerobot_trains_on_it(written, tmp_path, policy):
    out, _, _ = written
    command = [sys.executable, "-m", "lerobot.scripts.lerobot_train"]
    command += ["--dataset.repo_id=local/dataset", f"--dataset.root={out}"]
    command += ["--dataset.video_backend=pyav", f"--policy.type={policy}", "--policy.device=cpu"]
    command += ["--policy.pretrained_backbone_weights=null", "--policy.push_to_hub=false"]
    command += [f"--policy.{option}" for option in POLICIES[policy].split()]
    command += ["--batch_size=2", "--steps=10", "--num_workers=0", "--log_freq=1"]
    command += ["--save_checkpoint=false", f"--output_dir={tmp_path / 'run'}"]
    run = waiting.run(command, timeout=500)
    said = run.stdout + run.stderr
    assert run.returncode == 0, said[-4000:]
    assert "step:10 " in said and "loss:nan" not in said
