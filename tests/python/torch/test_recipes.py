"""The recipes of docs/training.md, as they are written there, on small data of every source that the page names."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

# A folder of tests has the name `torch`, so look for a part of the real one.
pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
for needed in ("av", "pyarrow", "rosbags", "google.protobuf"):
    pytest.importorskip(needed)
import dataset_files  # noqa: E402
import recipe_data  # noqa: E402
import torch  # noqa: E402

import robocache  # noqa: E402
from robocache.data import WindowDataset  # noqa: E402

pytestmark = pytest.mark.timeout(600)
PAGE = Path(__file__).resolve().parents[3] / "docs" / "training.md"
PERIOD_NS = 33_333_333
#: By the heading of a recipe: the chunk, and how many steps its policy sees.
RECIPES = {"ACT": (100, 1), "Diffusion Policy": (16, 2), "pi0": (50, 1)}


#: The heading of what all recipes begin with.
BEGINNING = "The beginning"


def code_of(heading):
    """The code below the heading that begins so."""
    section = re.search(rf"\n### {heading}.*?\n(.*?)(?=\n##)", PAGE.read_text(), re.S)[1]
    return re.search(r"```python\n(.*?)```", section, re.S)[1]


@pytest.fixture(scope="module", params=recipe_data.SOURCES)
def folder(request, tmp_path_factory):
    """A folder with `data/rows.zarr` of a source."""
    folder = tmp_path_factory.mktemp(request.param)
    recipe_data.SOURCES[request.param](folder)
    return folder


class Policy(torch.nn.Module):
    """Answers with the same chunk whatever it sees, and notes what that is."""

    def __init__(self, chunk):
        super().__init__()
        self.chunk = torch.nn.Parameter(torch.zeros(chunk, 2))
        self.seen = []

    def forward(self, *seen):
        self.seen.append(seen)
        return self.chunk.expand(len(seen[0]), -1, -1)


def trained(recipe, epochs, policy):
    """Runs a recipe and the loop. Returns the names that they leave."""
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    names = {"policy": policy, "optimizer": optimizer, "epochs": epochs}
    run(names, BEGINNING, recipe, "The loop")
    return names


def run(names, *headings):
    """Runs the code below these headings, one after the other."""
    for heading in headings:
        exec(compile(code_of(heading), f"{PAGE.name}, {heading}", "exec"), names)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains_and_goes_on(folder, recipe, tmp_path, monkeypatch):
    chunk, steps = RECIPES[recipe]
    (tmp_path / "data").symlink_to(folder / "data")
    monkeypatch.chdir(tmp_path)
    names = trained(recipe, 1, Policy(chunk))
    dataset, batches = names["dataset"], len(names["dataset"].sampler)
    assert batches >= 1 and torch.isfinite(names["loss"]) and names["loss"] > 0
    assert len(dataset.cache.episodes) == len(recipe_data.LENGTHS) - 2  # two only test
    state, top, *prompts = names["policy"].seen[0]
    assert state.shape[1:] == ((3,) if steps == 1 else (steps, 3))
    assert top.shape[1:] == ((3, 48, 64) if steps == 1 else (steps, 3, 48, 64))
    assert top.dtype == torch.float32 and top.max() <= 1
    assert not prompts or len(prompts[0]) == len(state)
    if prompts and "bags" in folder.name:
        # An episode without a task has no prompt, and not that of another.
        assert {text for seen in names["policy"].seen for text in seen[2]} == {"pick", ""}
    assert set(robocache.contract.load(tmp_path).streams) == {"state", "top"}
    # The next run goes on with the second epoch, and its network is that of the first.
    again = Policy(chunk)
    assert trained(recipe, 2, again)["dataset"].epoch == 1
    assert len(again.seen) == batches and (again.chunk != names["policy"].chunk).any()


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_chunk_is_that_of_the_frames(folder, recipe, tmp_path, monkeypatch):
    """Each step is the action of its frame, and past the end of an episode it is padding that repeats the last one."""
    if "bags" in folder.name or recipe == "pi0":
        pytest.skip("the frames are no multiples of the steps")
    chunk, steps = RECIPES[recipe]
    (tmp_path / "data").symlink_to(folder / "data")
    monkeypatch.chdir(tmp_path)
    names = {"policy": None}
    run(names, BEGINNING, recipe)
    dataset = names["dataset"]
    batch = dataset.batch(0)
    cache = dataset.cache
    for at, (number, instant) in enumerate(zip(batch["episode"], batch["instant_ns"], strict=True)):
        length = recipe_data.LENGTHS[int(number)]
        frames = np.arange(1, length + 1) * cache.period_ns
        actions = cache.windows(np.full(length, int(number)), frames, {"action": {}})["action"]
        expected = actions.float32()[:, 0]
        now = int(instant) // cache.period_ns - 1
        wanted = now + 1 - steps + np.arange(chunk)
        inside = (wanted >= 0) & (wanted < length)
        assert np.array_equal(batch["action_is_pad"][at], ~inside)
        assert np.array_equal(batch["action"][at], expected[wanted.clip(0, length - 1)])


def test_frames_that_a_list_leaves_out_come_in_no_window(tmp_path, monkeypatch):
    """The ranges of DROID's list, on a dataset whose paths are those of its episodes."""
    monkeypatch.chdir(tmp_path)
    kept = {
        "folder--/data/0.h5": [[3, 5], [10, 11]],
        "folder--/data/2.h5": [[0, 6]],
        "other--/x": [],
    }
    Path("droid_sample_ranges_v1_0_1.json").write_text(json.dumps(kept))
    recipe = "DROID without idle frames"
    text = re.search(rf"### {recipe}.*?```yaml\n(.*?)```", PAGE.read_text(), re.S)[1]
    Path("files.yaml").write_text(
        text.replace("gripper: observation/gripper_position", "first: is_first")
    )
    Path("mapping.yaml").write_text(dataset_files.RLDS_MAPPING)
    paths = [f"/data/{number}.h5" for number in range(3)]
    root = dataset_files.write_rlds(tmp_path / "droid/1.0.1", (12, 12, 6), paths=paths)
    train = robocache.EpisodeCache.from_dataset(root, "data", mapping="mapping.yaml")
    names = {"train": train, "robocache": robocache}
    code = code_of(recipe).replace("batch_size=32", "batch_size=9")
    exec(compile(code, PAGE.name, "exec"), names)
    dataset = WindowDataset(train, names["sampler"], {"state": {}})
    (batch,) = [dataset.batch(at) for at in range(len(dataset))]
    frames = batch["instant_ns"] // train.period_ns - 1
    found = sorted(zip(batch["episode"].tolist(), frames.tolist(), strict=True))
    assert found == [(0, 3), (0, 4), (0, 10), *((2, frame) for frame in range(6))]
    assert batch["state.valid"].all()


def test_an_action_counts_if_what_the_policy_sees_is_valid(folder, tmp_path, monkeypatch):
    (tmp_path / "data").symlink_to(folder / "data")
    monkeypatch.chdir(tmp_path)
    names = {"policy": None}
    run(names, BEGINNING)
    batch = {
        "state.valid": torch.tensor([[True, True], [False, True], [True, False], [True, True]]),
        "top.valid": torch.tensor([[True], [True], [True], [False]]),
        "action_is_pad": torch.tensor([[False, True]] * 4),
    }
    expected = [[[True], [False]]] * 2 + [[[False], [False]]] * 2
    assert names["counts"](batch).tolist() == expected


def test_processes_of_torchrun_need_more_than_the_recipe(folder, tmp_path, monkeypatch):
    """Otherwise each would train a policy of its own on the same batches, and all would write one checkpoint."""
    (tmp_path / "data").symlink_to(folder / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match="rank: expected rank and world, because 2 processes"):
        run({"policy": None}, BEGINNING, "ACT")
