"""The functions of the RoboCache that came before: its signatures, compared with its rules in torch."""

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
