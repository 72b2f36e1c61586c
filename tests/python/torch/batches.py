"""Batches of tensors for the tests of the operations, and how results are compared."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
on_devices = pytest.mark.parametrize("device", DEVICES)
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def expect_rank_asked_at_each_epoch(data, monkeypatch):
    """Checks that a dataset or a mixture without a rank asks for it, if the process group is made after it."""
    state = data.state()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    for begin in (
        lambda: data.set_epoch(0),
        lambda: data.resume(state),
        lambda: iter(data),
        lambda: data.batch(0),
        lambda: data.sampler.batch(0, 0),
    ):
        with pytest.raises(ValueError, match="rank: expected rank and world, because 2 processes"):
            begin()


def tensor(array, device):
    """A NumPy array as a tensor; uint16 are the bits of bfloat16."""
    if array is None:
        return None
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def bits(values):
    values = values.detach().cpu()
    return values.view({4: torch.int32, 2: torch.int16}[values.element_size()]).numpy()


def same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert (bits(found) == bits(expected)).all()


def case(device, dtype=torch.float32, episodes=4, rows=50, steps=30, dim=24, seed=0):
    """Rows, stamps and targets of a batch, some of them beyond both ends."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(episodes, rows, dim, generator=random).to(dtype)
    gaps = torch.randint(1, 20, (episodes, rows), generator=random)
    stamps = gaps.cumsum(1) + 1_795_000_000_000_000_000
    targets = stamps[:, :1] + torch.randint(
        -20, 10 * rows + 40, (episodes, steps), generator=random
    )
    return values.to(device), stamps.to(device), targets.to(device)
