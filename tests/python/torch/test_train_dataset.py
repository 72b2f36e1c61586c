"""The example that trains on a dataset: it learns, goes on where it was, and says what it cannot take."""

import os
import re
import sys
from pathlib import Path

import pytest

# A folder of tests has the name `torch`, so look for a part of the real one.
pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
for needed in ("av", "pyarrow", "rosbags"):
    pytest.importorskip(needed)
import recipe_data  # noqa: E402
import torch  # noqa: E402
import waiting  # noqa: E402

import robocache  # noqa: E402

pytestmark = pytest.mark.timeout(600)
REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLE = REPOSITORY / "examples" / "train_dataset.py"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return recipe_data.of_bags(tmp_path_factory.mktemp("bags")) / "rows.zarr"


def train(store, out, *options, processes=1):
    path = os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += [EXAMPLE, store, "--out", out, "--device=cpu", "--workers=0"]
    return waiting.run([*command, *options], timeout=300, env=environment)


@pytest.mark.parametrize("processes", [1, 2])
def test_it_learns_and_goes_on(store, tmp_path, processes):
    run = train(store, tmp_path / "policy", "--steps=60", "--chunk=20", processes=processes)
    assert run.returncode == 0, run.stderr
    steps, first, last = re.match(
        r"(\d+) steps, loss (\S+) to (\S+), held out \d", run.stdout
    ).groups()
    assert steps == "60" and float(last) < 0.5 * float(first)
    saved = torch.load(tmp_path / "policy" / "policy.pt", weights_only=False)
    batches = saved["state"]["epoch"], saved["state"]["done"]
    # The policy sees no actions, and what only tests has no part in its statistics.
    assert set(robocache.contract.load(tmp_path / "policy").streams) == {"state", "top"}
    cache = robocache.EpisodeCache.load(store, episodes=slice(0, 3))
    mean = torch.tensor(cache.statistics()["state"]["mean"]).float()
    assert torch.equal(saved["policy"]["state_mean"], mean)
    run = train(store, tmp_path / "policy", "--steps=70", "--chunk=20", processes=processes)
    assert run.returncode == 0 and run.stdout.startswith("10 steps, ")
    saved = torch.load(tmp_path / "policy" / "policy.pt", weights_only=False)
    assert saved["steps"] == 70 and batches < (saved["state"]["epoch"], saved["state"]["done"])


def test_what_it_cannot_train_on_is_an_error(store, tmp_path):
    run = train(store, tmp_path / "x", "--action=top")
    assert run.returncode == 1
    assert "--action: expected a stream of numbers, found top; the streams are " in run.stderr
    run = train(store, tmp_path / "x", "--held-out=4")
    assert run.returncode == 1 and "--held-out: expected 1 to 3 of 4 episodes" in run.stderr
