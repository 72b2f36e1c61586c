"""`robocache.lerobot.dataset` without LeRobot: inputs of the size of SmolVLA's, and batches that a GPU makes."""

import numpy as np
import pytest

pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch
from batches import on_a_gpu

import robocache
from robocache.lerobot import dataset

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
