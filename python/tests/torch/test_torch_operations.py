"""The operations on torch tensors: on the CPU, and on a GPU if there is one."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import robocache  # noqa: E402 (torch may not be there)
import robocache.torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_operations import FLAT, OFFSETS, ROWS, STAMPS, TARGETS, random_case  # noqa: E402

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
on_devices = pytest.mark.parametrize("device", DEVICES)
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


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


@on_devices
def test_random_cases_have_the_bits_of_the_reference(device):
    for seed in range(2000):
        arguments, keywords, expected = random_case(seed)
        keywords["dtype"] = TYPES[keywords["dtype"]]
        for key in ("row_offsets", "target_offsets"):
            keywords[key] = tensor(keywords[key], device)
        found = robocache.resample(*(tensor(each, device) for each in arguments), **keywords)
        assert found.values.device.type == device
        expected_bits = expected[0].view({4: np.int32, 2: np.int16}[expected[0].itemsize])
        assert (bits(found.values) == expected_bits).all(), seed
        assert (found.valid.cpu().numpy() == expected[1]).all(), seed
        assert (found.age_ns.cpu().numpy() == expected[2]).all(), seed


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


def arguments_of(device, dtype=torch.float32, *, ragged=False, grad=False):
    rows, stamps, targets = case(device, dtype)
    offsets = [None, None]
    if ragged:
        rows, stamps, targets = rows.flatten(0, 1), stamps.flatten(), targets.flatten()
        offsets = [torch.tensor([0, 50, 50, 150, 200]), torch.tensor([0, 30, 60, 90, 120])]
        stamps = stamps.sort().values + torch.arange(200, device=device)
        offsets = [each.to(device) for each in offsets]
    rows.requires_grad_(grad)
    limits = [robocache.NO_AGE] * 2
    return [rows, stamps, targets, "linear", *limits, "last", "", dtype, *offsets]


@on_devices
@pytest.mark.parametrize("ragged", [False, True])
def test_the_operators_pass_the_checks_of_torch(device, ragged):
    for grad in (False, True):
        arguments = arguments_of(device, ragged=ragged, grad=grad)
        torch.library.opcheck(torch.ops.robocache.resample.default, arguments)
        single = arguments[:3]
        lists = [[single[0]] * 2, [single[1]] * 2, single[2]]
        lists += [[each] * 2 for each in arguments[3:8]]
        lists += [arguments[8], [arguments[9]] * 2, arguments[10]]
        torch.library.opcheck(torch.ops.robocache.fuse.default, lists)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_compiles_into_one_graph(device, dtype):
    rows, stamps, targets = case(device, dtype)

    def act(rows, stamps, targets):
        found = robocache.resample(rows * 2, stamps, targets, max_gap_ns=15)
        return found.values + 1, found.valid, found.age_ns

    compiled = torch.compile(act, fullgraph=True, backend="aot_eager")
    for found, expected in zip(
        compiled(rows, stamps, targets), act(rows, stamps, targets), strict=True
    ):
        assert torch.equal(found, expected)


def dense_weights(rows, stamps, targets, fill):
    """The matrix [T, S] in float64 that the rows of an episode are multiplied by."""
    weights = torch.zeros(len(targets), rows, dtype=torch.float64)
    for at, target in enumerate(targets.tolist()):
        after = int(torch.searchsorted(stamps, target, right=True))
        if after == 0:
            continue
        held_age = target - int(stamps[after - 1])
        if after == rows or held_age == 0:
            weights[at, after - 1] = 1
            continue
        gap = int(stamps[after] - stamps[after - 1])
        if gap <= 15:
            weights[at, after - 1], weights[at, after] = 1 - held_age / gap, held_age / gap
        elif fill == "last":
            weights[at, after - 1] = 1
    return weights


@on_devices
@pytest.mark.parametrize("fill", ["zero", "last"])
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


@on_devices
def test_tensors_that_are_not_contiguous_or_aligned_are_taken(device):
    rows, stamps, targets = case(device)
    expected = robocache.resample(rows, stamps, targets).values
    turned = rows.transpose(0, 2).contiguous().transpose(0, 2)
    same_bits(robocache.resample(turned, stamps.t().contiguous().t(), targets).values, expected)
    memory = torch.empty(rows.numel() + 1, device=device)[1:].view(rows.shape)
    memory.copy_(rows)
    same_bits(robocache.resample(memory, stamps, targets).values, expected)
    expanded = stamps[:1].expand(4, -1)
    same_bits(
        robocache.resample(rows, expanded, targets).values,
        robocache.resample(rows, expanded.contiguous(), targets).values,
    )


@on_devices
def test_the_caller_may_give_the_memory(device):
    rows, stamps, targets = case(device)
    out = torch.empty(4, 30, 24, device=device)
    assert robocache.resample(rows, stamps, targets, out=out).values is out
    same_bits(out, robocache.resample(rows, stamps, targets).values)
    with pytest.raises(RuntimeError, match="no gradient"):
        robocache.resample(rows.requires_grad_(), stamps, targets, out=out)


WRONG = [
    (
        TypeError,
        "rows: expected elements of float32, float16 or bfloat16",
        {"rows": ROWS.astype(float)},
    ),
    (TypeError, "stamps: expected elements of int64", {"stamps": STAMPS.astype(float)}),
    (ValueError, "stamps: expected the shape", {"stamps": STAMPS[:, :3]}),
    (ValueError, "rows: expected 2 episodes", {"rows": ROWS[:1], "stamps": STAMPS[:1]}),
    (ValueError, "rows: expected the shape", {"rows": FLAT}),
    (ValueError, "row_offsets: expected the shape", {"rows": FLAT, "row_offsets": OFFSETS[None]}),
    (ValueError, "strategy: expected hold", {"strategy": "cubic"}),
]


@on_devices
@pytest.mark.parametrize(("error", "message", "change"), WRONG, ids=[w[1] for w in WRONG])
def test_wrong_arguments_are_told(device, error, message, change):
    arguments = {"rows": ROWS, "stamps": STAMPS, "targets": TARGETS, **change}
    arguments = {
        key: tensor(each, device) if isinstance(each, np.ndarray) else each
        for key, each in arguments.items()
    }
    with pytest.raises(error, match=message):
        robocache.resample(**arguments)


def test_arrays_of_two_libraries_are_not_mixed():
    rows, stamps, targets = (tensor(each, "cpu") for each in (ROWS, STAMPS, TARGETS))
    with pytest.raises(TypeError, match="stamps: expected a torch tensor, found ndarray"):
        robocache.resample(rows, STAMPS, targets)
    with pytest.raises(TypeError, match="stamps: expected an array of the library of the rows"):
        robocache.resample(ROWS, stamps, TARGETS)
    with pytest.raises(ValueError, match="out: expected a tensor on cpu, found one on meta"):
        robocache.resample(rows, stamps, targets, out=torch.empty(2, 2, 3, device="meta"))


@on_a_gpu
def test_tensors_of_two_devices_are_not_mixed():
    rows, stamps, targets = case("cuda")
    with pytest.raises(ValueError, match="stamps: expected a tensor on cuda:0, found one on cpu"):
        robocache.resample(rows, stamps.cpu(), targets)


@on_a_gpu
def test_it_runs_on_the_current_stream():
    rows, stamps, targets = case("cuda", rows=4000, dim=128, steps=1000)
    expected = robocache.resample(rows * 3, stamps, targets).values
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    results = []
    for turn in range(40):
        with torch.cuda.stream(streams[turn % 4]):
            torch.cuda._sleep(100_000)
            # The rows are made on this stream, late: a launch elsewhere would read something else.
            results.append(robocache.resample(rows * 3, stamps, targets).values * 1)
    torch.cuda.synchronize()
    for found in results:
        same_bits(found, expected)


@on_a_gpu
def test_it_is_captured_in_a_cuda_graph():
    rows, stamps, targets = case("cuda", torch.bfloat16)
    robocache.resample(rows, stamps, targets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = robocache.resample(rows, stamps, targets)
    rows.copy_(case("cuda", torch.bfloat16, seed=5)[0])
    graph.replay()
    same_bits(found.values, robocache.resample(rows, stamps, targets).values)


@on_a_gpu
def test_it_does_not_wait():
    rows, stamps, targets = case("cuda")
    robocache.resample(rows, stamps, targets)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)
    robocache.resample(rows, stamps, targets)
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()


@on_a_gpu
def test_wrong_offsets_on_a_gpu_give_no_valid_values_and_no_wrong_access():
    rows, stamps, targets = (each.flatten(0, 1) for each in case("cuda"))
    for wrong in ([0, 10**12, -5, 200, 200], [-7, -6, -5, -4, -3], [500] * 5):
        offsets = torch.tensor(wrong, device="cuda")
        found = robocache.resample(
            rows, stamps, targets, row_offsets=offsets, target_offsets=offsets
        )
        assert found.values.isfinite().all()
        assert not found.valid[found.values.eq(0).all(-1)].any()
    torch.cuda.synchronize()


@on_a_gpu
@pytest.mark.parametrize("name", ["cupy", "jax.numpy"])
def test_arrays_of_other_libraries_on_a_gpu(name):
    library = pytest.importorskip(name)
    if name == "jax.numpy":
        pytest.importorskip("jax").config.update("jax_enable_x64", True)
    rows, stamps, targets = case("cuda")
    take = getattr(library, "from_dlpack", None)
    found = robocache.resample(take(rows), take(stamps), take(targets))
    assert type(found.values) is type(take(rows))
    same_bits(torch.from_dlpack(found.values), robocache.resample(rows, stamps, targets).values)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
def test_tensors_of_a_gpu_that_is_not_the_current_one():
    rows, stamps, targets = case("cuda:1")
    found = robocache.resample(rows, stamps, targets)
    assert torch.cuda.current_device() == 0
    assert found.values.device == torch.device("cuda:1")
    assert torch.empty(1, device="cuda").device.index == 0
    expected = robocache.resample(*(each.to("cuda:0") for each in (rows, stamps, targets)))
    same_bits(found.values, expected.values)


class Loaded(torch.utils.data.Dataset):
    """A data set whose items are resampled in a worker."""

    def __len__(self):
        return 8

    def __getitem__(self, at):
        return robocache.resample(*case("cpu", seed=at)).values


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_it_works_in_the_workers_of_a_data_loader(method):
    robocache.resample(*case("cpu", rows=2000, dim=256, steps=2000))
    loader = torch.utils.data.DataLoader(
        Loaded(), batch_size=None, num_workers=2, multiprocessing_context=method
    )
    for at, found in enumerate(loader):
        same_bits(found, Loaded()[at])


@on_devices
def test_clouds_and_images_of_tensors(device):
    random = np.random.default_rng(0)
    points = random.uniform(-1, 1, (2, 3000, 4)).astype(np.float32)
    grid = {"origin_m": (-1, -1, -1), "size_m": 0.25, "shape": (8, 8, 8)}
    for channels in (["count"], ["count", "mean(i)"], ["min(i)", "last(range)", "sum(x)"]):
        expected = robocache.voxelize(points, fields="xyzi", channels=channels, **grid)
        of_tensor = tensor(points, device)
        found = robocache.voxelize(of_tensor, fields="xyzi", channels=channels, **grid)
        assert found.values.device.type == device
        assert (found.values.cpu().numpy() == expected.values).all()
        assert found.dropped.tolist() == expected.dropped.tolist()
    images = random.integers(0, 256, (3, 40, 60, 3), np.uint8)
    expected = robocache.encode_image(images, size=(32, 32), dtype="float16")
    found = robocache.encode_image(tensor(images, device), size=(32, 32), dtype=torch.float16)
    assert found.device.type == device
    assert (bits(found) == expected.view(np.int16)).all()


@on_devices
def test_the_operators_of_clouds_and_images_pass_the_checks_of_torch(device):
    points = torch.rand(2, 50, 3, device=device)
    pose = [1.0, 0, 0, 0, 0, 1.0, 0, 0, 0, 0, 1.0, 0]
    grid = ([0.0, 0.0, 0.0], 0.25, [4, 4, 2], ["count", "mean(x)"], ["x", "y", "z"])
    for own, starts, single in [(points, [0, 50, 100], False), (points[0], [0, 50], True)]:
        arguments = (own, *grid, starts, single, 1, pose, torch.float32)
        torch.library.opcheck(torch.ops.robocache.voxelize.default, arguments)
    images = torch.randint(0, 256, (3, 20, 30, 3), device=device, dtype=torch.uint8)
    words = ("", "pil_bilinear", "pad_center", None, "hwc", "rgb")
    arguments = (images, [8, 9], *words, [0.5] * 3, [0.5] * 3, 0, torch.float16)
    torch.library.opcheck(torch.ops.robocache.encode_image.default, arguments)

    def act(images):
        return robocache.encode_image(images, size=(8, 9), mean=[0.5], std=[0.5]) * 2

    assert torch.equal(torch.compile(act, fullgraph=True, backend="aot_eager")(images), act(images))


FRESH = """
import torch, robocache
act = torch.compile(
    lambda *batch: robocache.resample(*batch).values, fullgraph=True, backend="aot_eager"
)
print(tuple(act(torch.rand(1, 4, 3), torch.arange(4)[None], torch.tensor([[1, 2]])).shape))
"""


def test_the_first_use_of_the_package_may_be_inside_of_a_compiled_function():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", FRESH],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.stdout.strip() == "(1, 2, 3)", run.stderr


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


def test_the_output_is_noted_by_autograd_and_has_memory_of_its_own():
    rows, stamps = torch.arange(8.0).reshape(1, 8, 1), torch.arange(8)[None]
    out = torch.zeros(1, 8, 1)
    robocache.resample(rows, stamps, stamps, out=out)
    assert out._version == 1 and torch.equal(out, rows)
    with pytest.raises(ValueError, match="out: expected memory that no input has"):
        robocache.resample(rows, stamps, stamps, out=rows)


def test_a_negated_view_has_its_sign():
    rows, stamps = torch.arange(8.0).reshape(4, 2), torch.arange(4)
    found = robocache.resample(torch._neg_view(rows), stamps, stamps).values
    assert torch.equal(found, -rows)


def test_a_traced_function_has_the_operator():
    stamps = torch.arange(3)[None]
    traced = torch.jit.trace(
        lambda rows: robocache.resample(rows, stamps, stamps).values * 1,
        (torch.ones(1, 3, 1),),
        check_trace=False,
    )
    assert torch.equal(traced(torch.full((1, 3, 1), 5.0)), torch.full((1, 3, 1), 5.0))
