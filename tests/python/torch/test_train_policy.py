"""The example that trains a policy: in one process, and in two under torchrun."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

# A folder of tests has the name `torch`, so look for a part of the real one.
pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch  # noqa: E402
import waiting  # noqa: E402

import robocache  # noqa: E402 (torch may not be there)

MS = 1_000_000
REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLE = REPOSITORY / "examples" / "train_policy.py"


def save(folder, camera):
    """Saves a cache: four episodes of seven joints with positions and velocities, and a small camera if asked."""
    random = np.random.default_rng(1)
    stamps = np.arange(300) * 10 * MS
    seconds = stamps[:, None] / 1e9
    rows, images = [], []
    for _ in range(4):
        speed, phase = random.uniform(1, 4, 7), random.uniform(0, 6, 7)
        turn = seconds * speed + phase
        rows.append(np.concatenate([np.sin(turn), speed * np.cos(turn)], axis=1))
        images.append(random.integers(0, 255, (60, 3, 32, 32), np.uint8))
    joints = {
        "rows": np.concatenate(rows).astype(np.float32),
        "stamp_ns": np.tile(stamps, 4),
        "history": {"steps": 4, "step_ms": 20},
    }
    streams, lengths = {"joints": joints}, {"joints": [300] * 4}
    if camera:
        streams["camera"] = {"rows": np.concatenate(images), "stamp_ns": np.tile(stamps[::5], 4)}
        lengths["camera"] = [60] * 4
    robocache.EpisodeCache.from_arrays(streams, lengths).save(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(tmp_path_factory.mktemp("policy") / "cache", camera=True)


@pytest.fixture(scope="module")
def of_joints(tmp_path_factory):
    return save(tmp_path_factory.mktemp("policy") / "cache", camera=False)


def train(saved, out, *options, processes=1, device="cpu"):
    out.mkdir(exist_ok=True)
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += [EXAMPLE, saved, "--out", out / "policy.pt", "--curve", out / "curve.json"]
    path = os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    run = waiting.run(
        [*command, f"--device={device}", *options],
        timeout=300,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # the same bits on every stream
        },
    )
    return run, (json.loads((out / "curve.json").read_text()) if run.returncode == 0 else None)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_loss_falls(saved, tmp_path, processes):
    run, about = train(saved, tmp_path, "--steps=120", "--batch=32", processes=processes)
    assert run.returncode == 0, run.stderr
    assert about["world"] == processes and about["steps"] == 120
    # Each process has its share of the four episodes, and holds one of them out.
    assert (about["episodes"], about["held_out"]) == (4 // processes, 1)
    assert np.mean(about["loss"][-20:]) < 0.3 * np.mean(about["loss"][:5])
    assert "no robocache.json" in run.stdout  # rows of arrays
    policy = torch.load(tmp_path / "policy.pt", weights_only=False)
    # The first process has episodes 0 and 2, or all of them. The last one of its share has no part in what it normalises by.
    own = {"episodes": (0, 2)} if processes > 1 else {}
    cache = robocache.EpisodeCache.load(saved, **own)
    trained = slice(0, about["episodes"] - 1)
    expected = cache.statistics(episodes=trained)["joints"]
    assert (policy["statistics"]["joints"]["mean"] == expected["mean"]).all()
    assert (policy["statistics"]["joints"]["mean"] != cache.statistics()["joints"]["mean"]).any()


def test_too_little_data_is_an_error(saved, tmp_path):
    run, _ = train(saved, tmp_path, "--steps=5", "--batch=5000")
    assert run.returncode == 1 and "choose a smaller --batch" in run.stderr


def test_a_dataset_is_for_another_example(tmp_path):
    rows = {"rows": np.zeros((9, 2), np.float32), "stamp_ns": np.arange(9) * MS}
    store = robocache.EpisodeCache.from_arrays({"state": rows}, [9])
    store.save(tmp_path / "cache")
    run, _ = train(tmp_path / "cache", tmp_path, "--steps=5")
    assert run.returncode == 1 and "found state; examples/train_dataset.py trains on" in run.stderr


def test_a_graph_needs_a_gpu(saved, tmp_path):
    run, _ = train(saved, tmp_path, "--steps=5", "--graph")
    assert run.returncode == 2 and "--graph: expected a GPU, found --device cpu" in run.stderr


@pytest.mark.parametrize("processes", [1, 2])
def test_the_losses_of_a_graph_are_those_without(of_joints, tmp_path, processes):
    if torch.cuda.device_count() < processes:
        pytest.skip(f"there are fewer than {processes} GPUs")
    options = ["--steps=150", "--batch=32"]  # an epoch has fewer steps
    found = []
    for graph in ([], ["--graph"]):
        out = tmp_path / f"graph{len(graph)}"
        run, about = train(of_joints, out, *options, *graph, processes=processes, device="cuda")
        assert run.returncode == 0, run.stderr
        found.append((about["loss"], about["test"]))
    assert len(found[0][0]) == 150 and found[0][0][-1] < 0.3 * found[0][0][0]
    assert found[0] == found[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_graph_trains_on_images(saved, tmp_path):
    # The gradients of convolutions differ in the last bit from run to run.
    (_, without), (run, about) = (
        train(saved, tmp_path / name, "--steps=60", "--batch=32", *graph, device="cuda")
        for name, graph in (("without", []), ("graph", ["--graph"]))
    )
    assert run.returncode == 0, run.stderr
    assert np.allclose(about["loss"], without["loss"], rtol=0.02)


def test_the_demo_compares_every_tick_with_a_window(tmp_path, monkeypatch):
    """The comparison of demo/train_demo.py, with what a node would have served."""
    pytest.importorskip("xxhash")
    monkeypatch.setattr(
        sys,
        "path",
        [*(str(REPOSITORY / part) for part in ("demo", "examples", "scripts")), *sys.path],
    )
    import train_demo
    import train_policy

    order = [
        stream.name for stream in train_demo.configuration.load(str(train_demo.CONFIG)).streams
    ]
    random = np.random.default_rng(3)
    stamps = np.arange(1, 101) * 20 * MS
    streams = {}
    for name in order:
        vector = {"rows": random.normal(size=(100, 14)).astype(np.float32), "stamp_ns": stamps}
        streams[name] = vector
    cache = robocache.EpisodeCache.from_arrays(streams, [100], rate_hz=50)
    cache.save(tmp_path / "cache")
    torch.manual_seed(1)
    policy = train_policy.Policy(cache.streams, cache.statistics())
    saved = {
        "policy": policy.state_dict(),
        "streams": cache.streams,
        "statistics": cache.statistics(),
    }
    torch.save(saved, tmp_path / "policy.pt")
    ticks = np.arange(1, 101)
    windows = cache.windows(np.zeros(100, np.int64), ticks * 20 * MS, rows="strict")
    digests = [train_demo.digest_of(windows, at, order) for at in range(100)]
    assert len(set(digests)) == 100
    served = {"tick": ticks, "digest": np.array(digests, np.uint64)}
    served["action"] = np.zeros(
        (100, len(train_policy.ACTION_NS), train_policy.ACTION_CHANNELS), np.float32
    )
    found = train_demo.compare(tmp_path / "cache", served, tmp_path / "policy.pt")
    assert (found["ticks"], found["compared"], found["digests_differ"]) == (100, 100, 0)
    assert found["actions"].shape == served["action"].shape and found["actions_differ"] == 100
    served["action"], served["digest"] = (
        found["actions"],
        served["digest"] + (ticks == 7).astype(np.uint64),
    )
    found = train_demo.compare(tmp_path / "cache", served, tmp_path / "policy.pt")
    assert (found["digests_differ"], found["actions_differ"]) == (1, 0)
