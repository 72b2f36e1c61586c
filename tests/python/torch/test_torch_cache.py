"""`robocache.data`: batches of windows for PyTorch, in the same order for any workers."""

import os
import random
import sys

import numpy as np
import pytest
import waiting

# A folder of tests has the name `torch`, so look for a part of the real one.
pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch
from batches import expect_rank_asked_at_each_epoch

import robocache
from robocache.data import WindowDataset
from robocache.training.sampler import WindowSampler

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
    again.resume(state)
    assert len(again) == len(whole[0]) - 5
    assert_same(whole[0][5:], loaded(again, workers))
    again.resume(again.state_after(whole[0][-1]))
    assert again.epoch == 1
    assert_same(whole[1], loaded(again, workers))
    with pytest.raises(ValueError, match="state: expected seed"):
        dataset(cache, seed=1).resume(state)


def test_a_run_goes_on_with_another_number_of_ranks(cache):
    alone = loaded(dataset(cache), 0)
    first = dataset(cache, rank=1, world=2)
    state = first.state_after(loaded(first, 0)[2])  # six batches of all ranks
    ranks = [dataset(cache, rank=rank, world=4) for rank in range(4)]
    found = {}
    for rank, data in enumerate(ranks):
        data.resume(state)
        assert data.epoch == 0
        for round_, batch in enumerate(loaded(data, 2)):
            found[6 + 4 * round_ + rank] = batch["instant_ns"].tolist()
            assert data.state_after(batch)["done"] == 6 + 4 * (round_ + 1)
    assert sorted(found) == list(range(6, 6 + len(found))) and len(alone) - 6 - len(found) < 4
    sampled = {number: dataset(cache).sampler.batch(0, number)[1] for number in found}
    for number, instants in found.items():
        # Each rank draws a jitter of its own.
        assert np.abs(sampled[number] - instants).max() <= 2 * MS


class Interrupted(Exception):
    """A training that ends early."""


def documented_loop(cache, state, batches):
    """Runs the loop that `robocache.data` shows, and stops it after some batches. Returns these batches and the newest
    state."""
    code = robocache.data.__doc__.partition("\n\n")[2]
    if state is not None:
        code = code.replace("for epoch", "dataset.resume(state)\nfor epoch", 1)
    trained = []

    def train(batch):
        if len(trained) == batches:
            raise Interrupted
        place = int(batch["epoch"]), int(batch["number"])
        trained.append((*place, batch["instant_ns"].tolist()))

    options = {"period_ns": 7 * MS, "batch_size": 32, "seed": 2}
    names = {"cache": cache, "sampler": WindowSampler.of(cache, **options), "torch": torch}
    names |= {"config": {"state": {}}, "train": train, "state": state}
    names |= {"WindowDataset": WindowDataset, "DataLoader": torch.utils.data.DataLoader}
    try:
        exec(compile(code, "robocache.data", "exec"), names)
    except Interrupted:
        pass
    return trained, names["state"]


def test_the_documented_loop_goes_on_where_it_was(cache):
    whole, _ = documented_loop(cache, None, None)
    per_epoch = len(whole) // 10
    assert [(epoch, number) for epoch, number, _ in whole] == [
        (epoch, number) for epoch in range(10) for number in range(per_epoch)
    ]
    # In an epoch, at its end, and with nothing left.
    for ended in (2 * per_epoch + 3, 4 * per_epoch, len(whole)):
        first, state = documented_loop(cache, None, ended)
        rest, _ = documented_loop(cache, state, None)
        assert first + rest == whole, ended


def test_a_loop_that_would_undo_a_state_is_told(cache):
    data = dataset(cache)
    data.resume({**data.state(), "epoch": 3, "done": 2})
    with pytest.raises(ValueError, match="epoch: expected 3 or more, .* found 0: begin the loop"):
        data.set_epoch(0)
    data.set_epoch(3)
    assert loaded(data, 0)[0]["number"] == 2
    # The next time, the whole epoch.
    data.set_epoch(3)
    assert loaded(data, 0)[0]["number"] == 0
    data.set_epoch(0)
    assert data.epoch == 0


@pytest.mark.parametrize("seed", [None, 5])
def test_each_share_draws_its_own_jitter(cache, tmp_path, seed):
    def moved(share):
        own = robocache.EpisodeCache.load(tmp_path / "cache", share=share)
        sampler = WindowSampler.of(own, period_ns=7 * MS, batch_size=16)
        options = {} if seed is None else {"seed": seed}
        data = WindowDataset(own, sampler, {"state": {}}, jitter_ns=2 * MS, **options)
        return data.batch(0)["instant_ns"].numpy() - sampler.batch(0, 0)[1]

    jitters = [moved((rank, 3)) for rank in range(3)]
    assert all((one != other).any() for one, other in zip(jitters, jitters[1:], strict=False))
    assert (moved((1, 3)) == jitters[1]).all()


def test_windows_are_of_the_epoch_of_the_clock_that_was_drawn():
    import random_episodes

    several = 0
    for number in range(20):
        cache = random_episodes.episodes(number)
        options = {"period_ns": 7 * MS, "batch_size": 64, "drop_last": False}
        batch = WindowDataset(cache, WindowSampler.of(cache, **options)).batch(0)
        episodes, instants = batch["episode"].numpy(), batch["instant_ns"].numpy()
        expected = cache.windows(episodes, instants, epochs=batch["clock_epoch"].numpy()).torch()
        others = cache.windows(episodes, instants).torch()
        for name, value in expected.items():
            found = batch[name].contiguous().view(torch.uint8)
            assert torch.equal(found, value.contiguous().view(torch.uint8)), name
            several += not torch.equal(found, others[name].contiguous().view(torch.uint8))
    assert several


def test_ranks_share_the_batches(cache):
    alone = loaded(dataset(cache), 0)
    ranks = [loaded(dataset(cache, rank=rank, world=2), 2) for rank in (0, 1)]
    assert len(ranks[0]) == len(ranks[1]) == len(alone) // 2
    for number, batch in enumerate(ranks[0] + ranks[1]):
        rank, at = divmod(number, len(ranks[0]))
        assert torch.equal(batch["episode"], alone[2 * at + rank]["episode"])


def test_a_batch_has_tensors_alone(cache):
    batch = dataset(cache).batch(3)
    moved = {name: value.to("cpu") for name, value in batch.items()}
    assert (int(moved["epoch"]), int(moved["number"])) == (0, 3)
    assert torch.equal(batch["state_is_pad"], ~batch["state.valid"])
    assert batch["state_is_pad"].dtype == torch.bool and not batch["state_is_pad"].all()
    assert batch["picture_is_pad"].shape == (16, 1)


def halved(batch):
    return {**batch, "half": batch["picture"].float() / 2}


def test_a_transform_runs_where_batches_are_made(cache):
    sampler = WindowSampler.of(cache, period_ns=7 * MS, batch_size=16)
    data = WindowDataset(cache, sampler, {"picture": {}}, transform=halved)
    for batch in [data.batch(0), *loaded(data, 2, "spawn")]:
        assert torch.equal(batch["half"] * 2, batch["picture"].float())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": {"stat": {}}}, "config: stream: expected one of picture, state, found 'stat'"),
        ({"jitter": 3}, "unexpected keyword argument 'jitter'"),
        ({"rows": "some"}, "rows: expected one of as_served, strict, all, found 'some'"),
        ({"latency_ns": {"stat": 3}}, "latency_ns: expected streams of picture, state, found stat"),
        ({"transform": 3}, "transform: expected a function of a batch, found 3"),
        ({"jitter_ns": -5}, "jitter_ns: expected 0 ns or more, found -5"),
        ({"jitter_ns": 1.5}, "jitter_ns: expected 0 ns or more, found 1.5"),
    ],
)
def test_what_does_not_fit_is_told_before_the_first_batch(cache, options, message):
    sampler = WindowSampler.of(cache, period_ns=7 * MS, batch_size=16)
    with pytest.raises((TypeError, ValueError), match=message):
        WindowDataset(cache, sampler, **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_makes_batches_of_batches_is_refused(cache, workers):
    loader = torch.utils.data.DataLoader(dataset(cache), batch_size=8, num_workers=workers)
    with pytest.raises(ValueError, match="batch_size: expected None for the DataLoader"):
        next(iter(loader))
    with pytest.raises(TypeError, match="has batches and no items, found the index 0"):
        dataset(cache)[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on_where_it_was(cache, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return stateful.StatefulDataLoader(dataset(cache), batch_size=None, num_workers=workers)

    whole = list(loader())
    first = loader()
    for number, _ in enumerate(first):
        if number == 4:
            state = first.state_dict()
            break
    again = loader()
    again.load_state_dict(state)
    assert_same(whole[5:], list(again))


def test_mostly_invalid_batches_are_told(cache):
    sampler = WindowSampler.of(cache, period_ns=3 * MS, batch_size=64)
    data = WindowDataset(cache, sampler, {"picture": {"max_age_ms": 2}})
    with pytest.warns(RuntimeWarning, match=r"valid steps inside the episodes: picture \d+ %"):
        data.batch(0)


#: Two workers make mostly invalid windows in each epoch.
INVALID = """
import sys
import robocache
from torch.utils.data import DataLoader, Dataset
from robocache.data import WindowDataset

path, kind, context, epochs = sys.argv[1:]
cache, config = robocache.EpisodeCache.load(path), {"picture": {"max_age_ms": 2}}

class Own(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, at):
        return cache.windows([0], [at * 3_000_000], config)["picture"].array

if __name__ == "__main__":
    sampler = robocache.WindowSampler.of(cache, period_ns=3_000_000, batch_size=16)
    data, size = (Own(), 1) if kind == "own" else (WindowDataset(cache, sampler, config), None)
    for _ in range(int(epochs)):
        loader = DataLoader(data, batch_size=size, num_workers=2, multiprocessing_context=context)
        assert len(list(loader)) > 3
"""


@pytest.mark.parametrize(
    ("kind", "context", "epochs"),
    [("windows", "fork", 3), ("windows", "spawn", 2), ("own", "fork", 1)],
)
def test_one_worker_warns_once(cache, tmp_path, kind, context, epochs):
    """A DataLoader starts new workers in each epoch. Each worker makes its own plans."""
    script = tmp_path / "train.py"
    script.write_text(INVALID)
    arguments = [sys.executable, script, tmp_path / "cache", kind, context, str(epochs)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = waiting.run(arguments, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("valid steps inside the episodes: ") == 1


def test_tensors_share_the_memory_of_the_windows(cache):
    batch = cache.windows([0], [300 * MS])
    tensors = batch.torch()
    assert tensors["state"].data_ptr() == batch["state"].array.ctypes.data
    assert tensors["state.valid"].all() and torch.equal(
        tensors["state"], torch.from_numpy(batch["state"].float32())
    )


def test_windows_go_into_a_tensor_of_the_caller(cache):
    items = [0, 1], [100 * MS, 200 * MS]
    expected = cache.windows(*items)
    out = torch.full((len(expected.buffer),), 7, dtype=torch.uint8)
    found = cache.windows(*items, out=out).torch()
    assert out.data_ptr() <= found["state"].data_ptr() < out.data_ptr() + len(out)
    for name, tensor in expected.torch().items():
        assert torch.equal(found[name], tensor)
    wrong = torch.zeros(2 * len(out), dtype=torch.uint8)[::2]
    with pytest.raises(ValueError, match="found one with gaps on cpu"):
        cache.windows(*items, out=wrong)
    with pytest.raises(ValueError, match="on meta"):
        cache.windows(*items, out=torch.zeros(len(out), dtype=torch.uint8, device="meta"))


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
    streams = {"observation.state": "state", "action": "action"}
    config = {
        streams[name]: {"offsets_ns": [round(at * 1e9) for at in each]}
        for name, each in steps.items()
    }
    episodes, numbers = np.array([0, 0, 1, 1]), np.array([2, 17, 5, 18])
    windows = cache.windows(episodes, (numbers + 1) * 50 * MS, config)
    for at, (episode, number) in enumerate(zip(episodes, numbers, strict=True)):
        item = dataset[int(number + (30 if episode else 0))]
        for name, stream in streams.items():
            assert (windows[stream].array[at] == item[name].numpy()).all()
            assert windows[stream].valid[at].all()
    beyond = cache.windows([0], [30 * 50 * MS], config)["action"]
    assert beyond.valid.tolist() == [[True, False]]


def test_batches_have_the_task_of_each_window():
    parts = [{"begin_ns": 0, "task": "pick"}, {"begin_ns": 300 * MS, "task": "place"}]
    about = [
        {"name": "a", "task": "pick", "tasks": parts},
        {"name": "b"},
        {"name": "c", "task": "open"},
    ]
    rows = {"rows": np.zeros((30, 1), np.float32), "stamp_ns": np.tile(np.arange(10) * 50 * MS, 3)}
    cache = robocache.EpisodeCache.from_arrays({"state": rows}, [10, 10, 10], episodes=about)
    assert cache.tasks == ["pick", "place", "open"]
    data = WindowDataset(cache, WindowSampler.of(cache, period_ns=50 * MS, batch_size=7))
    seen = set()
    for batch in data:
        assert batch["task_index"].dtype == torch.int64
        of = zip(batch["episode"].tolist(), batch["instant_ns"].tolist(), strict=True)
        expected = [(int(at >= 300 * MS), -1, 2)[0 if e == 0 else e] for e, at in of]
        assert batch["task_index"].tolist() == expected
        seen |= set(expected)
    assert seen == {-1, 0, 1, 2}


def test_targets_of_instants_that_were_written_are_refused(cache):
    """On a GPU the instants are the caller's tensor. The CPU shows the errors for it."""
    from robocache.training.windows import Windows

    instants = torch.arange(3) * 100 * MS
    plan = cache.plan({"state": {}})
    size, parts = plan.layout(3)
    windows = Windows(np.zeros(size, np.uint8), plan, parts, instants, None)
    expected = cache.windows([0, 0, 0], instants.numpy(), {"state": {}})["state"].target_ns
    assert (windows["state"].target_ns.numpy() == expected).all()
    instants += 1
    with pytest.raises(RuntimeError, match="written since"):
        windows["state"].target_ns  # noqa: B018 (it raises)


@pytest.mark.parametrize(
    "name", ["episode", "instant_ns", "task_index", "clock_epoch", "epoch", "number"]
)
def test_a_stream_does_not_overwrite_a_tensor_of_the_batch(name):
    stream = {"rows": np.zeros((9, 1), np.float32), "stamp_ns": np.arange(9) * MS}
    cache = robocache.EpisodeCache.from_arrays({name: stream}, [9])
    sampler = WindowSampler.of(cache, period_ns=MS, batch_size=3)
    with pytest.raises(ValueError, match=f"config: expected no stream '{name}'"):
        WindowDataset(cache, sampler)


def test_a_transform_that_returns_nothing_is_told(cache):
    sampler = WindowSampler.of(cache, period_ns=7 * MS, batch_size=16)
    data = WindowDataset(cache, sampler, transform=lambda batch: None)
    with pytest.raises(
        TypeError, match="transform: expected a function that returns a batch, found None"
    ):
        data.batch(0)


def test_a_state_of_other_epochs_is_refused(cache):
    """`batches` counts those of a rank, so an epoch of four ranks has other batches than one of two."""

    def of(world, **options):
        options |= {"rank": 0, "world": world}
        sampler = WindowSampler.of(cache, period_ns=MS, batch_size=2, **options)
        return WindowDataset(cache, sampler)

    state = of(4, batches=10).state()
    with pytest.raises(ValueError, match="state: expected order"):
        of(2, batches=10).resume(state)
    of(2, batches=20).resume(state)
    of(2).resume(of(4).state())


def test_a_process_of_several_says_its_rank(cache, monkeypatch):
    """Otherwise all would train on the same batches."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    options = {"period_ns": MS, "batch_size": 2}
    with pytest.raises(ValueError, match="rank: expected rank and world, because 2 processes"):
        WindowDataset(cache, WindowSampler.of(cache, **options))
    ranks = [WindowSampler.of(cache, rank=rank, world=2, **options) for rank in range(2)]
    instants = [WindowDataset(cache, rank).batch(0)["instant_ns"].tolist() for rank in ranks]
    assert not set(instants[0]) & set(instants[1])


@pytest.mark.parametrize("name", ["number", "state.valid", "picture_is_pad", "state"])
def test_a_column_replaces_no_tensor_of_a_batch(cache, name):
    sampler = WindowSampler.of(cache, period_ns=7 * MS, batch_size=16)
    config = {"state": {}, "picture": {}}
    with pytest.raises(ValueError, match=f"columns: expected no column '{name}'"):
        WindowDataset(cache, sampler, config, columns={name: np.arange(3)})


def test_all_batches_have_the_statistics_of_the_begin(cache, tmp_path):
    path = tmp_path / "stats.json"
    path.write_text('{"state": {"mean": [0, 0, 0], "std": [1, 1, 1]}}')
    normalize = {"mode": "mean_std", "stats": path, "key": "state"}
    sampler = WindowSampler.of(cache, period_ns=7 * MS, batch_size=16)
    data = WindowDataset(cache, sampler, {"state": {"normalize": normalize}})
    before = data.batch(0)["state"]
    path.write_text('{"state": {"mean": [9, 9, 9], "std": [1, 1, 1]}}')
    assert torch.equal(data.batch(0)["state"], before)


def noise(batch):
    """An augmentation by all three generators."""
    state = batch["state"].float()
    shift = torch.randn(1) + np.random.random() + random.random()
    return {**batch, "state": state + shift}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_transform_draws_the_same_for_any_workers(cache, workers):
    sampler = WindowSampler.of(cache, period_ns=7 * MS, batch_size=16, seed=9)
    columns = {"prompt": [["a", "b"], ["c"], ["d", "e"]], "tokens": np.arange(6).reshape(3, 2)}
    data = WindowDataset(cache, sampler, {"state": {}}, transform=noise, columns=columns)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    alone = list(data)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(alone[0]["state"] - alone[1]["state"], torch.zeros(()))
    assert_same(alone, loaded(data, workers, "fork"))
    episodes = alone[0]["episode"]
    assert torch.equal(alone[0]["tokens"], torch.arange(6).reshape(3, 2)[episodes])
    drawn = [columns["prompt"][n] for n in episodes.tolist()]
    assert all(text in of for text, of in zip(alone[0]["prompt"], drawn, strict=True))


def test_processes_that_meet_later_are_asked_at_each_epoch(cache, monkeypatch):
    """`torch.multiprocessing.spawn` sets no WORLD_SIZE, and a dataset may be made before the process group."""
    expect_rank_asked_at_each_epoch(dataset(cache), monkeypatch)
