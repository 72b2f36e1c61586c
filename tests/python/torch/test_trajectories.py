"""The functions of the RoboCache that came before: its signatures, compared with its rules in torch."""

import ctypes
import inspect

import pytest

torch = pytest.importorskip("torch")

import robocache  # noqa: E402 (torch may not be there)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
on_devices = pytest.mark.parametrize("device", DEVICES)


def interpolated(rows, times, targets):
    """Linear interpolation in float64, with the end rows held."""
    out = torch.empty(*targets.shape, rows.shape[2], dtype=torch.double)
    for episode, step in torch.cartesian_prod(*map(torch.arange, targets.shape)).tolist():
        own, target = times[episode].double(), targets[episode, step].double()
        target = target.clamp(own[0], own[-1])
        after = min(max(int(torch.searchsorted(own, target, right=True)), 1), len(own) - 1)
        weight = (target - own[after - 1]) / (own[after] - own[after - 1])
        a, b = rows[episode, after - 1].double(), rows[episode, after].double()
        out[episode, step] = a + weight * (b - a)
    return out


def stream(device, rows, dim, seed, dtype=torch.float32):
    random = torch.Generator().manual_seed(seed)
    times = torch.linspace(0.1 * seed, 5, rows).expand(3, -1)
    return torch.randn(3, rows, dim, generator=random).to(device, dtype), times.to(device)


def test_signatures_are_those_of_before():
    expected = {
        "resample_trajectories": [
            "source_data",
            "source_times",
            "target_times",
            "device",
            "backend",
        ],
        "fuse_multimodal": [
            *(f"stream{at}_{what}" for at in (1, 2, 3) for what in ("data", "times")),
            "target_times",
            "backend",
        ],
        "voxelize_pointcloud": [
            "points",
            "features",
            "grid_min",
            "voxel_size",
            "grid_size",
            "mode",
            "backend",
        ],
    }
    for name, parameters in expected.items():
        assert list(inspect.signature(getattr(robocache, name)).parameters) == parameters
    defaults = inspect.signature(robocache.voxelize_pointcloud).parameters
    assert list(defaults["grid_min"].default) == [-10.0] * 3
    assert defaults["voxel_size"].default == 0.1
    assert list(defaults["grid_size"].default) == [128] * 3
    assert defaults["mode"].default == "occupancy"


@on_devices
def test_trajectories_are_interpolated_and_held_beyond_both_ends(device):
    rows, times = stream(device, 40, 6, 1)
    targets = torch.linspace(-1, 7, 33, device=device).expand(3, -1)
    found = robocache.resample_trajectories(rows, times, targets)
    expected = interpolated(rows.cpu(), times.cpu(), targets.cpu())
    torch.testing.assert_close(found.cpu().double(), expected, rtol=0, atol=1e-5)
    assert (found[:, 0] == rows[:, 0]).all()
    assert (found[:, -1] == rows[:, -1]).all()
    assert robocache.resample_trajectories(rows.bfloat16(), times, targets).dtype == torch.bfloat16
    moved = robocache.resample_trajectories(rows.cpu(), times.cpu(), targets.cpu(), device=device)
    assert torch.equal(moved, found)


@on_devices
def test_three_streams_are_fused_as_each_is_interpolated(device):
    streams = [stream(device, 30, 5, 1), stream(device, 100, 2, 2), stream(device, 11, 3, 3)]
    targets = torch.linspace(0, 6, 20, device=device).expand(3, -1)
    found = robocache.fuse_multimodal(*(each for own in streams for each in own), targets)
    parts = [robocache.resample_trajectories(*own, targets) for own in streams]
    assert torch.equal(found, torch.cat(parts, -1))


def stamped(times):
    """Seconds as the nearest nanoseconds, ties to even, in torch."""
    return (times.double() * 1_000_000_000).round().long()


def held(rows, times, targets):
    """The values of `resample`, at targets that are moved to the first row."""
    stamps = stamped(times)
    return robocache.resample(rows, stamps, stamped(targets).maximum(stamps[:, :1])).values


def random_streams(device, dtype, of_times, seed):
    """Three streams of times that begin anywhere, and targets, some beyond both ends and some at a row."""
    random = torch.Generator().manual_seed(seed)
    base = float(torch.randint(-900, 900, (), generator=random))
    streams = []
    for rows, dim in ((1500, 36), (7, 14), (61, 6)):
        gaps = torch.rand(4, rows, generator=random, dtype=torch.double) * 0.02 + 0.001
        times = (gaps.cumsum(1) + base).to(of_times)
        values = torch.randn(4, rows, dim, generator=random).to(dtype)
        streams += [values.to(device), times.to(device)]
    targets = torch.rand(4, 90, generator=random, dtype=torch.double) * 20 + base - 2
    targets = targets.to(of_times).to(device)
    targets[:, :40] = streams[1][:, :400:10]
    return streams, targets


@on_devices
@pytest.mark.parametrize("of_times", [torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_seconds_give_the_bits_of_nanoseconds(device, dtype, of_times):
    for seed in range(20):
        streams, targets = random_streams(device, dtype, of_times, seed)
        found = robocache.fuse_multimodal(*streams, targets)
        parts = [held(*streams[at : at + 2], targets) for at in (0, 2, 4)]
        assert torch.equal(found, torch.cat(parts, -1)), seed
        moved = [each.cpu() for each in (*streams, targets)]
        assert torch.equal(found.cpu(), robocache.fuse_multimodal(*moved)), seed
        for at in (0, 2, 4):
            alone = robocache.resample_trajectories(*streams[at : at + 2], targets)
            assert torch.equal(alone, parts[at // 2]), seed


@on_devices
def test_times_of_other_types_and_layouts_are_taken(device):
    streams, targets = random_streams(device, torch.float32, torch.float32, 3)
    rows, times = streams[4:]
    expected = held(rows, times, targets)
    turned = times.t().contiguous().t()
    memory = torch.empty(times.numel() + 1, device=device)[1:].view(times.shape)
    memory.copy_(times)
    negated = torch._neg_view(-times)
    for own in (turned, memory, negated, times.double()):
        assert torch.equal(robocache.resample_trajectories(rows, own, targets), expected)
    same = targets[:1].expand(4, -1)
    expected = held(rows, times, same)
    for own in (same, targets[:1], targets[0]):
        assert torch.equal(robocache.resample_trajectories(rows, times, own), expected)
    # Whole seconds; and streams of several types: `cat` gives the widest one.
    whole = torch.arange(61, device=device).expand(4, -1)
    assert torch.equal(
        robocache.resample_trajectories(rows, whole, targets + 950),
        held(rows, whole, targets + 950),
    )
    mixed = [streams[0].half(), *streams[1:]]
    parts = [held(*mixed[at : at + 2], targets) for at in (0, 2, 4)]
    assert torch.equal(robocache.fuse_multimodal(*mixed, targets), torch.cat(parts, -1))


@pytest.mark.parametrize("of_times", [torch.float32, torch.float64])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), 1e10])
def test_what_is_no_time_is_an_error_on_the_cpu(wrong, of_times):
    rows, times = torch.zeros(1, 4, 2), torch.arange(4, dtype=of_times)[None]
    for at in range(4):
        own = times.clone()
        own[0, at] = wrong
        with pytest.raises(ValueError, match=f"times: expected seconds .* at element {at}"):
            robocache.resample_trajectories(rows, own, times)
        with pytest.raises(ValueError, match=f"times: expected seconds .* at element {at}"):
            robocache.resample_trajectories(rows, times, own)
    with pytest.raises(ValueError, match="stamps: expected strictly increasing"):
        robocache.resample_trajectories(rows, times.flip(1), times)


@pytest.mark.skipif(len(DEVICES) == 1, reason="needs a GPU")
def test_what_is_no_time_harms_no_other_episode_on_a_gpu():
    streams, targets = random_streams("cuda", torch.float32, torch.float32, 5)
    expected = robocache.fuse_multimodal(*streams, targets)
    wrong = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e10], device="cuda")
    streams[1][1, 3:7] = targets[1, 20:24] = wrong
    found = robocache.fuse_multimodal(*streams, targets)
    others = [0, 2, 3]
    assert torch.equal(found[others], expected[others])
    # No value beside such a time looks valid, and all others are as without it.
    assert found[1, 20:24].isnan().all()
    assert torch.equal(found[1, :20, 36:], expected[1, :20, 36:])
    near = found[1].isnan()
    assert near[:, :36].any() and torch.equal(found[1][~near], expected[1][~near])


@pytest.mark.skipif(len(DEVICES) == 1, reason="needs a GPU")
def test_equal_times_give_nan_on_a_gpu():
    rows = torch.arange(8.0, device="cuda").reshape(1, 8, 1)
    # An f32 has steps of 128 s at the time of a clock.
    times = 1.795e9 + torch.arange(8.0, device="cuda")[None]
    assert (times.diff() == 0).all()
    assert robocache.resample_trajectories(rows, times, times + 64).isnan().all()


@on_devices
def test_a_stream_without_rows_is_an_error(device):
    times = torch.zeros(2, 0, device=device)
    with pytest.raises(ValueError, match="rows: expected at least one row of each stream"):
        robocache.resample_trajectories(
            torch.zeros(2, 0, 3, device=device), times, torch.zeros(2, 4, device=device)
        )


@on_devices
@pytest.mark.parametrize("of_times", [torch.float32, torch.float64])
def test_seconds_give_the_gradients_of_nanoseconds(device, of_times):
    streams, targets = random_streams(device, torch.float32, of_times, 4)
    rows = [each.requires_grad_() for each in streams[::2]]
    found = robocache.fuse_multimodal(*streams, targets)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(0)).to(device)
    of_rows = torch.autograd.grad(found, rows, weights)
    parts = [held(*streams[at : at + 2], targets) for at in (0, 2, 4)]
    expected = torch.autograd.grad(torch.cat(parts, -1), rows, weights)
    assert all(map(torch.equal, of_rows, expected))

    def values(weights):
        found = robocache.resample_trajectories(rows[1], streams[3], targets)
        return torch.autograd.grad(found, rows[1], weights, create_graph=True)[0]

    # The values are linear in the rows, so the gradient's gradient is the operation.
    weights = torch.ones(4, 90, 14, device=device, requires_grad=True)
    (again,) = torch.autograd.grad(values(weights), weights, rows[1])
    assert torch.equal(again, held(rows[1], streams[3], targets))


@on_devices
def test_seconds_are_taken_by_a_compiler_that_traces_all(device):
    streams, targets = random_streams(device, torch.float32, torch.float32, 6)
    compiled = torch.compile(robocache.fuse_multimodal, fullgraph=True, backend="eager")
    expected = robocache.fuse_multimodal(*streams, targets)
    assert torch.equal(compiled(*streams, targets), expected)
    arguments = ([*streams[::2]], [*streams[1::2]], targets)
    torch.library.opcheck(torch.ops.robocache.fuse_seconds.default, arguments)


@pytest.mark.skipif(len(DEVICES) == 1, reason="needs a GPU")
@pytest.mark.parametrize("of_times", [torch.float32, torch.float64])
def test_seconds_are_one_launch_that_a_graph_takes(of_times):
    streams, targets = random_streams("cuda", torch.float32, of_times, 7)
    expected = robocache.fuse_multimodal(*streams, targets)
    found, launches, graph = captured(lambda: robocache.fuse_multimodal(*streams, targets))
    assert launches == 1
    found.zero_()
    graph.replay()
    assert torch.equal(found, expected)
    assert captured(lambda: robocache.resample_trajectories(*streams[:2], targets))[1] == 1


def captured(call):
    """Values of a call, the number of its launches, and its CUDA graph."""
    try:
        graph = torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:
        pytest.skip("this torch keeps no graph")
    with torch.cuda.graph(graph):
        found = call()
    nodes = ctypes.c_size_t()
    raw = ctypes.c_void_p(graph.raw_cuda_graph())
    assert ctypes.CDLL("libcuda.so.1").cuGraphGetNodes(raw, None, ctypes.byref(nodes)) == 0
    graph.instantiate()
    return found, nodes.value, graph


@on_devices
@pytest.mark.parametrize("mode", ["count", "occupancy", "mean", "max"])
def test_clouds_are_sorted_into_voxels_with_x_first(device, mode):
    random = torch.Generator().manual_seed(0)
    points = torch.rand(3000, 3, generator=random) * 2.4 - 1.2
    features = torch.rand(3000, 4, generator=random)
    shape, low, size = (8, 10, 5), (-1.0, -1.0, -0.5), 0.2
    cells = ((points - torch.tensor(low)) / size).floor().long()
    inside = ((cells >= 0) & (cells < torch.tensor(shape))).all(1)
    flat = (cells[:, 0] * shape[1] + cells[:, 1]) * shape[2] + cells[:, 2]
    flat, kept = flat[inside], features[inside]
    voxels = shape[0] * shape[1] * shape[2]
    counts = torch.bincount(flat, minlength=voxels)
    if mode in ("count", "occupancy"):
        counts = counts.clamp(max=1) if mode == "occupancy" else counts
        expected = counts.int().view(shape)
    elif mode == "mean":
        expected = torch.zeros(voxels, 4).index_add_(0, flat, kept)
        expected = (expected / counts.clamp(min=1)[:, None]).view(*shape, 4)
    else:
        where = flat[:, None].expand(-1, 4)
        expected = torch.zeros(voxels, 4).scatter_reduce_(0, where, kept, "amax")
        expected = expected.view(*shape, 4)
    found = robocache.voxelize_pointcloud(
        points.to(device), features.to(device), list(low), size, list(shape), mode
    )
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=1e-5)


@pytest.mark.skipif(len(DEVICES) == 1, reason="needs a GPU")
def test_counts_on_a_gpu_have_the_bits_of_the_cpu_and_wait_for_nothing():
    random = torch.Generator().manual_seed(1)
    points = torch.rand(3, 70_001, 3, generator=random) * 13 - 6.5
    points[0, :20_000] = points[0, 0]  # one voxel
    points[1, 5, 1], points[1, 6, 0] = float("nan"), float("inf")
    grid = {"grid_min": (-6.4, -6.0, -6.4), "voxel_size": 0.3, "grid_size": (40, 38, 43)}
    moved = points.cuda()

    def both(cloud):
        counts = robocache.voxelize_pointcloud(cloud, mode="count", **grid)
        return counts, robocache.voxelize_pointcloud(cloud, **grid)

    def grids(clouds):
        return robocache.voxelize_occupancy(clouds, (40, 38, 43), 0.3, (-6.4, -6.0, -6.4))

    clouds = [*points, points[0, :0], points[0, ::2], points[0].double(), points[0, :7]]
    for cloud in clouds:
        for found, expected in zip(both(cloud.cuda()), both(cloud), strict=True):
            assert found.dtype == torch.int32 and torch.equal(found.cpu(), expected)
    found = grids(moved)
    assert found.dtype == torch.float32 and torch.equal(found.cpu(), grids(points))
    # Far from the origin, an f32 does not hold the coordinates.
    far = {"grid_min": (4e6, 0, 0), "voxel_size": 0.1, "grid_size": (8, 8, 8)}
    cloud = torch.tensor([[4e6, 0.1, 0.1], [4e6 + 0.5, 0.7, 0.2]])
    counts = robocache.voxelize_pointcloud(cloud.cuda(), mode="count", **far)
    assert torch.equal(counts.cpu(), robocache.voxelize_pointcloud(cloud, mode="count", **far))
    # A graph takes it, so nothing waits.
    static, graph = moved[0].clone(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = both(static)
    for cloud in points:
        static.copy_(cloud)
        graph.replay()
        for found, expected in zip(recorded, both(cloud), strict=True):
            assert torch.equal(found.cpu(), expected)


def test_wrong_modes_are_told():
    points = torch.zeros(3, 3)
    with pytest.raises(ValueError, match="mode: expected count, occupancy, mean or max, found sum"):
        robocache.voxelize_pointcloud(points, mode="sum")
    with pytest.raises(ValueError, match="features: expected them for the mode mean"):
        robocache.voxelize_pointcloud(points, mode="mean")
