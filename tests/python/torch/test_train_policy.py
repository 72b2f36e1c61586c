"""The example that trains a policy: in one process, and in two under torchrun."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

# A folder of tests has the name `torch`, so look for a part of the real one.
pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch  # noqa: E402

import robocache  # noqa: E402 (torch may not be there)

MS = 1_000_000
REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLE = REPOSITORY / "examples" / "train_policy.py"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved cache: four episodes of seven joints with positions and velocities, and a small camera."""
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
    camera = {"rows": np.concatenate(images), "stamp_ns": np.tile(stamps[::5], 4)}
    lengths = {"joints": [300] * 4, "camera": [60] * 4}
    cache = robocache.EpisodeCache.from_arrays({"joints": joints, "camera": camera}, lengths)
    folder = tmp_path_factory.mktemp("policy") / "cache"
    cache.save(folder)
    return folder


def train(saved, out, *options, processes=1):
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += [EXAMPLE, saved, "--out", out / "policy.pt", "--curve", out / "curve.json"]
    path = os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [*map(str, command), "--device=cpu", *options],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
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
