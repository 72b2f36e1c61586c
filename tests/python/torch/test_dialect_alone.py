"""`robocache.lerobot.dataset` without LeRobot: inputs of the size of SmolVLA's, and batches that a GPU makes."""

import numpy as np
import pytest

pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch
from batches import on_a_gpu

import robocache
from robocache.lerobot import dataset
from robocache.training.windows import Windows

FPS, PERIOD = 30, 33_333_333
CAMERAS = ("camera1", "camera2", "camera3")
#: Tokens of a text in SmolVLA's configuration.
TOKENS = 48


def cache(size, lengths=(60, 9)):
    random = np.random.default_rng(3)
    stamps = np.concatenate([np.arange(length) * PERIOD for length in lengths])
    streams = {
        name: {
            "rows": random.integers(0, 256, (len(stamps), 3, size, size), dtype=np.uint8),
            "stamp_ns": stamps,
            "channels": ["red", "green", "blue"],
        }
        for name in CAMERAS
    }
    for name in ("state", "action"):
        values = random.normal(size=(len(stamps), 6)).astype(np.float32)
        streams[name] = {"rows": values, "stamp_ns": stamps}
    about = [{"name": f"{at}", "task": f"pick {at}"} for at in range(len(lengths))]
    return robocache.EpisodeCache.from_arrays(streams, lengths, episodes=about, rate_hz=FPS)


STEPS = {"action": [at / FPS for at in range(50)]}


def tokens(batch):
    """Adds what a tokenizer makes of the tasks: here, the bytes of the texts."""
    texts = [np.frombuffer(f"{task}\n".encode(), np.uint8) for task in batch["task"]]
    ids = np.zeros((len(texts), TOKENS), np.int64)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = text
    batch["observation.language.tokens"] = torch.from_numpy(ids)
    batch["observation.language.attention_mask"] = torch.from_numpy(ids > 0)
    return batch


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_have_the_inputs_of_smolvla(workers):
    """Its defaults: images of 512x512 in 0..1, chunks of 50 actions, 48 tokens."""
    data = dataset(cache(512), STEPS)
    made = data.batches(4, seed=2, transform=tokens)
    batch = next(iter(torch.utils.data.DataLoader(made, batch_size=None, num_workers=workers)))
    expected = {
        **{f"observation.images.{name}": ((4, 3, 512, 512), torch.float32) for name in CAMERAS},
        "observation.state": ((4, 6), torch.float32),
        "action": ((4, 50, 6), torch.float32),
        "action_is_pad": ((4, 50), torch.bool),
        "observation.language.tokens": ((4, TOKENS), torch.int64),
        "observation.language.attention_mask": ((4, TOKENS), torch.bool),
    }
    assert {key: (tuple(batch[key].shape), batch[key].dtype) for key in expected} == expected
    for at in range(4):
        episode, frame = int(batch["episode_index"][at]), int(batch["frame_index"][at])
        row = episode * 60 + frame
        assert batch["task"][at] == f"pick {episode}"
        item = data[row]
        for key in list(expected)[:6]:
            assert torch.equal(batch[key][at], item[key]), key
        text = bytes(batch["observation.language.tokens"][at].tolist()).rstrip(b"\0")
        assert text == f"pick {episode}\n".encode()
    image = batch["observation.images.camera1"]
    assert image.max() == 1 and image.min() == 0


def test_images_are_divided_as_torch_does():
    data = dataset(cache(16), STEPS)
    own = dataset(cache(16), STEPS, return_uint8=True)
    for found, expected in zip(data.batches(8), own.batches(8), strict=True):
        for name in CAMERAS:
            key = f"observation.images.{name}"
            assert expected[key].dtype == torch.uint8
            assert torch.equal(found[key], expected[key].float() / 255)


LENGTHS = (60, 9)
#: By key of an item its streams.
KINDS = {
    "observation.state": ("arm", "gripper"),
    "observation.half": ("half",),
    "observation.images.last": ("last",),
    "observation.images.gray": ("gray",),
    "observation.images.normal": ("normal",),
    "action": ("action",),
}
KIND_STEPS = {
    "observation.state": (-1, 0),
    "observation.images.gray": (-2, 0, 1),
    "action": range(-1, 12),
    "index": (0, 5),
}


def of_kinds():
    """Rows of each kind that the dialect changes, and the rows that items have: images with channels last or one channel,
    normalised ones, half floats, and two streams of one key."""
    random, count = np.random.default_rng(8), sum(LENGTHS)
    colours = ["red", "green", "blue"]
    last = random.integers(0, 256, (count, 4, 6, 3), dtype=np.uint8)
    gray = random.integers(0, 256, (count, 1, 4, 6), dtype=np.uint8)
    half = random.normal(size=(count, 2)).astype(np.float16)
    floats = {
        name: random.normal(size=(count, *shape)).astype(np.float32)
        for name, shape in (("arm", [2]), ("gripper", [1]), ("normal", [3, 4, 6]), ("action", [6]))
    }
    rows = {**floats, "last": last, "gray": gray, "half": half}
    channels = {"last": colours, "gray": ["gray"], "normal": colours}
    stamps = np.concatenate([np.arange(length) * PERIOD for length in LENGTHS])
    streams = {
        name: {"rows": of, "stamp_ns": stamps}
        | ({"channels": channels[name]} if name in channels else {})
        for name, of in rows.items()
    }
    expected = {
        "observation.state": np.concatenate([floats["arm"], floats["gripper"]], axis=1),
        "observation.half": half.astype(np.float32),
        "observation.images.last": last.transpose(0, 3, 1, 2) / np.float32(255),
        "observation.images.gray": gray.repeat(3, axis=1) / np.float32(255),
        "observation.images.normal": floats["normal"],
        "action": floats["action"],
        "index": np.arange(count),
    }
    about = [{"name": f"{at}", "task": f"pick {at}"} for at in range(len(LENGTHS))]
    cache = robocache.EpisodeCache.from_arrays(streams, LENGTHS, episodes=about, rate_hz=FPS)
    return cache, expected


def assert_batch(batch, expected, places):
    """Compares a batch with rows, which beyond an episode are its first or its last."""
    begins = np.where(places < LENGTHS[0], 0, LENGTHS[0])[:, None]
    ends = np.where(places < LENGTHS[0], LENGTHS[0], sum(LENGTHS))[:, None]
    for key, rows in expected.items():
        wanted = places[:, None] + np.array(KIND_STEPS.get(key, (0,)))
        inside = wanted.clip(begins, ends - 1)
        values = rows[inside if key in KIND_STEPS else inside[:, 0]]
        assert batch[key].dtype == torch.from_numpy(values).dtype, key
        assert np.array_equal(batch[key].numpy(), values), key
        assert (f"{key}_is_pad" in batch) == (key in KIND_STEPS)
        if key in KIND_STEPS:
            assert np.array_equal(batch[f"{key}_is_pad"].numpy(), inside != wanted), key
    assert batch["task"] == [f"pick {place // LENGTHS[0]}" for place in places]


def dataset_of_kinds():
    cache, expected = of_kinds()
    steps = {key: [at / FPS for at in of] for key, of in KIND_STEPS.items()}
    return dataset(cache, steps, keys=KINDS), expected


@pytest.mark.parametrize("options", [{}, {"weights": [1, 3]}, {"rank": 1, "world": 2}])
def test_batches_have_rows_of_every_kind(options):
    data, expected = dataset_of_kinds()
    for batch in data.batches(8, seed=4, **options):
        places = 60 * batch["episode_index"].numpy() + batch["frame_index"].numpy()
        assert_batch(batch, expected, places)
    places = np.array([0, 59, 60, 68])
    items = torch.utils.data.default_collate(data.__getitems__(places.tolist()))
    assert_batch(items, expected, places)


def test_a_gray_image_may_be_changed_in_place():
    cache, expected = of_kinds()
    keys = {"observation.images.gray": ("gray",), "action": ("action",)}
    batch = next(iter(dataset(cache, keys=keys, return_uint8=True).batches(4, seed=4)))
    images = batch["observation.images.gray"]
    places = 60 * batch["episode_index"].numpy() + batch["frame_index"].numpy()
    wanted = expected["observation.images.gray"][places] * np.float32(255)
    assert images.dtype == torch.uint8 and np.array_equal(images.numpy(), wanted.round())
    images[:, 0] = 7
    assert np.array_equal(images[:, 1:].numpy(), wanted[:, 1:].round())


def test_a_stream_has_one_key():
    cache, _ = of_kinds()
    keys = {"observation.state": ("action",), "action": ("action",)}
    with pytest.raises(ValueError, match="each stream once, found 'action' twice"):
        dataset(cache, keys=keys)


def test_memory_of_torch_has_the_batches_of_the_host():
    """A GPU's windows are a tensor, from which the dialect takes its views. Here it is longer, as one of the caller may be."""
    data, expected = dataset_of_kinds()
    items = np.array([3, 59, 60, 68, 0])
    source, dialect = data._source, data._dialect
    episodes, instants, epochs = source.sampler.located(items)
    host = data.cache.windows(episodes, instants, dialect.plan, epochs=epochs)
    memory = torch.zeros(len(host.buffer) + 67, dtype=torch.uint8)
    memory[64 : 64 + len(host.buffer)] = torch.from_numpy(host.buffer)
    windows = Windows(memory[64:], host.plan, host._parts, host.instants_ns, None)
    batch = dialect.batch(windows, items)
    action = batch["action"]
    assert action.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr()
    assert_batch(batch, expected, items)
    of_streams = windows.torch()
    assert of_streams.keys() == host.torch().keys()
    for key, values in host.torch().items():
        assert torch.equal(of_streams[key], values), key


@on_a_gpu
@pytest.mark.parametrize("memory", ["device", "pinned", "mapped"])
@pytest.mark.parametrize("is_bytes", [False, True])
def test_a_gpu_makes_the_batches_of_the_host(memory, is_bytes):
    host = cache(32)
    pair = [
        dataset(of, STEPS, return_uint8=is_bytes) for of in (host, host.to("cuda:0", memory=memory))
    ]
    for expected, found in zip(*(each.batches(8, seed=5) for each in pair), strict=True):
        assert found.keys() == expected.keys()
        assert found["action"].is_cuda and found["observation.images.camera1"].is_cuda
        for key, values in expected.items():
            same = torch.equal(found[key].cpu(), values) if torch.is_tensor(values) else None
            assert same or found[key] == values, key
    for expected, found in zip(*([each[0], each[68]] for each in pair), strict=True):
        for key, values in expected.items():
            assert key == "task" or torch.equal(found[key].cpu(), values), key


def test_batches_of_a_share_are_this_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    cache(16).save(tmp_path / "saved")
    seen = []
    for rank, length in enumerate((60, 9)):
        data = dataset(tmp_path / "saved", STEPS, share=(rank, 2))
        made = data.batches(3, seed=2)
        frames = [batch["frame_index"] for batch in made]
        assert sorted(torch.cat(frames).tolist()) == list(range(length))
        seen.append(made.sampler.seed)
        with pytest.raises(ValueError, match="rank: expected none for a cache that is a share"):
            data.batches(3, rank=rank, world=2)
    assert seen == [4, 5]
