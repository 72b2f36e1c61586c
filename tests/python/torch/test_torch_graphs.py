"""The operations in what torch captures: its checks of operators, compiled and traced functions, CUDA graphs."""

import os
import sys

import pytest
import waiting

torch = pytest.importorskip("torch")

from batches import case, on_a_gpu, on_devices, same_bits  # noqa: E402 (torch may not be there)

import robocache  # noqa: E402
import robocache.arrays.torch  # noqa: E402


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
    run = waiting.run([sys.executable, "-c", FRESH], timeout=200, env=environment)
    assert run.stdout.strip() == "(1, 2, 3)", run.stderr


def test_a_traced_function_has_the_operator():
    stamps = torch.arange(3)[None]
    traced = torch.jit.trace(
        lambda rows: robocache.resample(rows, stamps, stamps).values * 1,
        (torch.ones(1, 3, 1),),
        check_trace=False,
    )
    assert torch.equal(traced(torch.full((1, 3, 1), 5.0)), torch.full((1, 3, 1), 5.0))


@on_devices
def test_a_mode_of_torch_gets_the_operator(device):
    """Otherwise the results of one call would be constants of the graph."""
    from torch.fx.experimental.proxy_tensor import make_fx

    rows, stamps, targets = case(device)

    def act(rows):
        return robocache.resample(rows, stamps, targets).values * 2

    traced = make_fx(act)(rows)
    assert torch.ops.robocache.resample.default in {node.target for node in traced.graph.nodes}
    same_bits(traced(rows * 3), act(rows * 3))


@on_a_gpu
def test_a_graph_with_angles_keeps_its_lanes():
    rows, stamps, targets = case("cuda")
    lanes = ["angular"] * 24
    expected = robocache.resample(rows, stamps, targets, lanes=lanes)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = robocache.resample(rows, stamps, targets, lanes=lanes)
    # More other rules than are kept.
    for limit in range(1, 1400):
        others = ["angular"] * 23 + ["linear"]
        robocache.resample(rows, stamps, targets, lanes=others, max_gap_ns=limit)
    found.values.zero_()
    graph.replay()
    same_bits(found.values, expected.values)


@on_a_gpu
@pytest.mark.parametrize("name", ["encode_image", "voxelize"])
def test_what_cannot_be_captured_says_so(name):
    images = torch.zeros(20, 30, 3, device="cuda", dtype=torch.uint8)
    points = torch.rand(50, 3, device="cuda")
    grid = {"origin_m": (0, 0, 0), "size_m": 0.25, "shape": (4, 4, 4)}

    def act():
        if name == "encode_image":
            robocache.encode_image(images, size=(8, 9))
        else:
            robocache.voxelize(points, **grid)

    act()
    graph, message = torch.cuda.CUDAGraph(), None
    with torch.cuda.graph(graph):
        images + 1
        try:
            act()
        except RuntimeError as error:
            message = str(error)
    assert "expected no capture of a CUDA graph" in message
    graph.replay()
    torch.cuda.synchronize()
    act()
