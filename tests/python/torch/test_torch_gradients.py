"""Gradients of the operations on torch tensors: on the CPU, and on a GPU if there is one."""

import pytest

torch = pytest.importorskip("torch")

from batches import case, on_devices, same_bits  # noqa: E402 (torch may not be there)

import robocache  # noqa: E402
import robocache.arrays.torch  # noqa: E402


def dense_weights(rows, stamps, targets, fill):
    """The matrix [T, S] in float64 that the rows of an episode are multiplied by."""
    weights = torch.zeros(len(targets), rows, dtype=torch.float64)
    for at, target in enumerate(targets.tolist()):
        after = int(torch.searchsorted(stamps, target, right=True))
        if after == 0:
            weights[at, 0] = fill == "first"
            continue
        held_age = target - int(stamps[after - 1])
        if after == rows or held_age == 0:
            weights[at, after - 1] = 1
            continue
        gap = int(stamps[after] - stamps[after - 1])
        if gap <= 15:
            weights[at, after - 1], weights[at, after] = 1 - held_age / gap, held_age / gap
        elif fill != "zero":
            weights[at, after - 1] = 1
    return weights


@on_devices
@pytest.mark.parametrize("fill", ["zero", "last", "first"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_are_those_of_the_dense_weights(device, fill, dtype):
    rows, stamps, targets = case(device, dtype)
    rows.requires_grad_()
    found = robocache.resample(rows, stamps, targets, max_gap_ns=15, fill=fill)
    of_values = torch.randn(found.values.shape, generator=torch.Generator().manual_seed(1))
    of_values = of_values.to(device, dtype)
    found.values.backward(of_values)
    assert not found.valid.requires_grad
    weights = [
        dense_weights(50, *each, fill) for each in zip(stamps.cpu(), targets.cpu(), strict=True)
    ]
    expected = torch.stack(weights).mT @ of_values.cpu().double()
    close = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    torch.testing.assert_close(rows.grad.cpu().double(), expected, rtol=close, atol=close)


@on_devices
def test_gradients_of_fused_streams_are_those_of_each(device):
    rows, stamps, targets = case(device)
    wide = case(device, dim=5, seed=2)[0]
    ours = [rows.clone().requires_grad_(), wide.clone().requires_grad_()]
    values = robocache.fuse([robocache.Stream(own, stamps) for own in ours], targets).values
    (values * values).sum().backward()
    for own, plain in zip(ours, [rows, wide], strict=True):
        alone = plain.clone().requires_grad_()
        values = robocache.resample(alone, stamps, targets).values
        (values * values).sum().backward()
        same_bits(own.grad, alone.grad)


@on_devices
def test_gradients_are_the_same_in_every_run_and_in_any_order_of_launch(device):
    rows, stamps, targets = case(device, episodes=3, rows=5, steps=4000, dim=300)

    def gradient():
        own = rows.clone().requires_grad_()
        robocache.resample(own, stamps, targets).values.sin().sum().backward()
        return own.grad

    first = gradient()
    for _ in range(5):
        same_bits(gradient(), first)
    if device == "cuda":
        own = rows.cpu().requires_grad_()
        found = robocache.resample(own, stamps.cpu(), targets.cpu()).values
        of_values = rows.clone().requires_grad_()
        values = robocache.resample(of_values, stamps, targets).values
        weights = torch.ones_like(values)
        values.backward(weights)
        found.backward(weights.cpu())
        same_bits(of_values.grad, own.grad)


@on_devices
def test_other_strategies_and_lanes_have_no_gradient(device):
    rows, stamps, targets = case(device)
    rows.requires_grad_()
    for keywords, word in [({"strategy": "hold"}, "hold"), ({"lanes": ["angular"] * 24}, "lanes")]:
        found = robocache.resample(rows, stamps, targets, **keywords)
        with pytest.raises(RuntimeError, match=word):
            found.values.sum().backward()


def test_a_gradient_of_another_shape_is_an_exception():
    stamps = torch.arange(1000)
    with pytest.raises(ValueError, match="of_values: expected the shape"):
        torch.ops.robocache.fuse_backward(
            torch.zeros(1),
            [stamps],
            stamps,
            [64],
            [0],
            ["linear"],
            [10],
            [10],
            ["zero"],
            [""],
            [None],
            None,
        )


@on_devices
@pytest.mark.parametrize("fill", ["zero", "last", "first"])
def test_a_gradient_of_a_gradient_is_that_of_the_dense_weights(device, fill):
    rows, stamps, targets = case(device, rows=12, steps=9, dim=3)
    rows.requires_grad_()
    values = robocache.resample(rows, stamps, targets, max_gap_ns=15, fill=fill).values
    (first,) = torch.autograd.grad(values.pow(3).sum(), rows, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), rows)
    weights = [
        dense_weights(12, *each, fill) for each in zip(stamps.cpu(), targets.cpu(), strict=True)
    ]
    dense = torch.stack(weights)
    plain = rows.detach().cpu().double().requires_grad_()
    (of_first,) = torch.autograd.grad((dense @ plain).pow(3).sum(), plain, create_graph=True)
    (expected,) = torch.autograd.grad(of_first.square().sum(), plain)
    torch.testing.assert_close(second.cpu().double(), expected, rtol=1e-4, atol=1e-4)


@on_devices
def test_the_operator_of_the_gradient_passes_the_checks_of_torch(device):
    rows, stamps, targets = case(device)
    of_values = torch.randn(4, 30, 24, device=device, requires_grad=True)
    limits = [[robocache.NO_AGE]] * 2
    arguments = (of_values, [stamps], targets, [24], [0], ["linear"], *limits, ["last"], [""])
    torch.library.opcheck(torch.ops.robocache.fuse_backward.default, (*arguments, [None], None))


@on_devices
def test_a_forward_mode_gradient_is_an_exception(device):
    rows, stamps, targets = case(device)
    operator = torch.ops.robocache.resample
    rest = ("linear", 10, 10, "zero", "", torch.float32, None, None)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(rows, torch.ones_like(rows))
        for act in (
            lambda: robocache.resample(dual, stamps, targets),
            lambda: robocache.fuse([robocache.Stream(dual, stamps)], targets),
            lambda: operator(dual, stamps, targets, *rest),
        ):
            with pytest.raises(RuntimeError, match="no forward-mode gradient"):
                act()
        # Rows that have no tangent are as anywhere else.
        found = robocache.resample(rows, stamps, targets).values
    same_bits(found, robocache.resample(rows, stamps, targets).values)
    with pytest.raises(RuntimeError, match="no forward-mode gradient"):
        torch.func.jvp(
            lambda rows: robocache.resample(rows, stamps, targets).values, (rows,), (rows,)
        )
    fuse = torch.ops.robocache.fuse
    lists = (["linear"], [10], [10], ["zero"], [""], torch.float32, [None], None)
    back = (targets, [24], [0], ["linear"], [10], [10], ["zero"], [""], [None], None)
    for act, argument in (
        (lambda rows: operator(rows, stamps, targets, *rest)[0], rows),
        (lambda rows: fuse([rows], [stamps], targets, *lists)[0], rows),
        (
            lambda of: torch.ops.robocache.fuse_backward(of, [stamps], *back)[0],
            torch.ones(4, 30, 24, device=device),
        ),
    ):
        with pytest.raises(RuntimeError, match="no forward-mode gradient"):
            torch.func.jvp(act, (argument,), (torch.ones_like(argument),))
        # What does not depend on the argument has no tangent, and needs none.
        _, tangent = torch.func.jvp(
            lambda x, act=act, own=argument: x + act(own).sum(), (argument,), (argument,)
        )
        same_bits(tangent, argument)
