"""`robocache.data`: batches of windows for PyTorch, in the same order for any workers."""

import numpy as np
import pytest

# A folder of tests has the name `torch`, so look for a part of the real one.
pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch

import robocache
from robocache.data import WindowDataset
from robocache.sampler import WindowSampler

MS = 1_000_000


@pytest.fixture
def cache(tmp_path):
    random = np.random.default_rng(1)
    lengths = [80, 50, 120]
    stamps = np.concatenate([np.arange(n) * 10 * MS for n in lengths])
    streams = {
        "state": {
            "rows": random.normal(size=(sum(lengths), 3)).astype(np.float32),
            "stamp_ns": stamps,
            "history": {"steps": 4, "step_ms": 20},
        },
        "picture": {
            "rows": random.integers(0, 256, (sum(lengths), 4, 4, 3), dtype=np.uint8),
            "stamp_ns": stamps,
        },
    }
    robocache.EpisodeCache.from_arrays(streams, lengths).save(tmp_path / "cache")
    return robocache.EpisodeCache.load(tmp_path / "cache")


def dataset(cache, **options):
    options = {"period_ns": 7 * MS, "batch_size": 16, "seed": 9, **options}
    sampler = WindowSampler.of(cache, **options)
    return WindowDataset(
        cache, sampler, {"state": {"dtype": "bf16"}, "picture": {}}, jitter_ns=2 * MS
    )


def loaded(data, workers, context=None):
    options = {"multiprocessing_context": context} if workers else {}
    return list(torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, **options))


def assert_same(one, two):
    assert len(one) == len(two) > 0
    for a, b in zip(one, two, strict=True):
        assert a.keys() == b.keys()
        for name, value in a.items():
            same = torch.equal(value, b[name]) if torch.is_tensor(value) else value == b[name]
            assert same, name


@pytest.mark.parametrize(("workers", "context"), [(1, "fork"), (3, "fork"), (2, "spawn")])
def test_batches_do_not_depend_on_workers(cache, workers, context):
    data = dataset(cache)
    alone = loaded(data, 0)
    assert alone[0]["state"].shape == (16, 4, 3) and alone[0]["state"].dtype == torch.bfloat16
    assert (
        alone[0]["picture"].shape == (16, 1, 4, 4, 3)
        and alone[0]["picture.valid"].dtype == torch.bool
    )
    assert [batch["number"] for batch in alone] == list(range(len(data)))
    assert_same(alone, loaded(data, workers, context))
    data.set_epoch(1)
    other = loaded(data, 0)
    assert not torch.equal(other[0]["instant_ns"], alone[0]["instant_ns"])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_goes_on_where_its_state_was_saved(cache, workers):
    whole = [loaded(data := dataset(cache), 0)]
    data.set_epoch(1)
    whole.append(loaded(data, 0))
    first = dataset(cache)
    loader = torch.utils.data.DataLoader(first, batch_size=None, num_workers=workers)
    for number, batch in enumerate(loader):
        if number == 4:
            # Workers are ahead by now.
            state = first.state_after(batch)
            break
    again = dataset(cache)
    again.load_state_dict(state)
    assert len(again) == len(whole[0]) - 5
    assert_same(whole[0][5:], loaded(again, workers))
    again.load_state_dict(again.state_after(whole[0][-1]))
    assert again.epoch == 1
    assert_same(whole[1], loaded(again, workers))
    with pytest.raises(ValueError, match="state: expected seed"):
        dataset(cache, seed=1).load_state_dict(state)


def test_ranks_share_the_batches(cache):
    alone = loaded(dataset(cache), 0)
    ranks = [loaded(dataset(cache, rank=rank, world=2), 2) for rank in (0, 1)]
    assert len(ranks[0]) == len(ranks[1]) == len(alone) // 2
    for number, batch in enumerate(ranks[0] + ranks[1]):
        rank, at = divmod(number, len(ranks[0]))
        assert torch.equal(batch["episode"], alone[2 * at + rank]["episode"])


def test_tensors_share_the_memory_of_the_windows(cache):
    batch = cache.windows([0], [300 * MS])
    tensors = batch.torch()
    assert tensors["state"].data_ptr() == batch["state"].array.ctypes.data
    assert tensors["state.valid"].all() and torch.equal(
        tensors["state"], torch.from_numpy(batch["state"].float32())
    )


def test_a_lerobot_dataset_gives_its_frames(tmp_path):
    datasets = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": None},
        "action": {"dtype": "float32", "shape": (2,), "names": None},
    }
    made = datasets.LeRobotDataset.create(
        "local/robot", 20, features, root=tmp_path / "made", use_videos=False
    )
    random = np.random.default_rng(6)
    frames = [random.normal(size=(count, 5)).astype(np.float32) for count in (30, 20)]
    for episode, task in zip(frames, ("pick", "place"), strict=True):
        for frame in episode:
            made.add_frame({"observation.state": frame[:3], "action": frame[3:], "task": task})
        made.save_episode()
    made.finalize()
    steps = {"observation.state": [-0.1, 0.0], "action": [0.0, 0.05]}
    dataset = datasets.LeRobotDataset("local/robot", root=tmp_path / "made", delta_timestamps=steps)
    cache = robocache.EpisodeCache.from_lerobot(dataset)
    assert [episode["task"] for episode in cache.episodes] == ["pick", "place"]
    config = {
        name: {"offsets_ns": [round(at * 1e9) for at in each]} for name, each in steps.items()
    }
    episodes, numbers = np.array([0, 0, 1, 1]), np.array([2, 17, 5, 18])
    windows = cache.windows(episodes, numbers * 50 * MS, config)
    for at, (episode, number) in enumerate(zip(episodes, numbers, strict=True)):
        item = dataset[int(number + (30 if episode else 0))]
        for name in steps:
            assert (windows[name].array[at] == item[name].numpy()).all()
            assert windows[name].valid[at].all()
    beyond = cache.windows([0], [29 * 50 * MS], config)["action"]
    assert beyond.valid.tolist() == [[True, False]]


def test_targets_of_instants_that_were_written_are_refused(cache):
    """On a GPU the instants are the caller's tensor. The CPU shows what is told of it."""
    from robocache.windows import Windows

    instants = torch.arange(3) * 100 * MS
    plan = cache.plan({"state": {}})
    size, parts = plan.layout(3)
    windows = Windows(np.zeros(size, np.uint8), plan, parts, instants, None)
    expected = cache.windows([0, 0, 0], instants.numpy(), {"state": {}})["state"].target_ns
    assert (windows["state"].target_ns.numpy() == expected).all()
    instants += 1
    with pytest.raises(RuntimeError, match="written since"):
        windows["state"].target_ns  # noqa: B018 (it raises)
