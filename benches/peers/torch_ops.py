"""Times the cases of `robocache_bench` in PyTorch, as a user would write them.

It times eager operations and torch.compile (max-autotune-no-cudagraphs). Both are captured in a
CUDA graph, so that only the device is timed. "Cold": inputs and outputs rotate through more memory
than the cache holds, and no output has the memory of another. "Warm": one input, and outputs where
torch puts them, which is the same memory again and again. A case of clouds has two peers: one does
the same work (bounds, drops, rows of bf16), and the fast one leaves that out.
"""

import argparse
import json
import statistics

import torch

# B, S, T, D
RESAMPLE = [
    (1, 500, 16, 32),
    (32, 50, 256, 128),
    (32, 500, 250, 256),
    (64, 4096, 1024, 32),
    (64, 1000, 500, 512),
]
FUSE = [(30, 512), (100, 64), (200, 12)]
MEAN_GAP_NS = 10_000_000
EPOCH_NS = 1_795_000_000_000_000_000
SIDE = 128


def resample(rows, stamps, targets):
    """Linear interpolation of rows [B, S, D] at stamps [B, S] to targets [B, T]."""
    after = torch.searchsorted(stamps, targets, right=True)
    last = stamps.shape[1] - 1
    a = (after - 1).clamp(0, last)
    b = after.clamp(0, last)
    start, end = stamps.gather(1, a), stamps.gather(1, b)
    gap = (end - start).clamp(min=1)
    weight = ((targets - start).double() / gap.double()).float().clamp(0, 1).unsqueeze(-1)
    episode = torch.arange(rows.shape[0], device=rows.device).unsqueeze(-1)
    x, y = rows[episode, a].float(), rows[episode, b].float()
    return (x + weight * (y - x)).to(rows.dtype)


def fuse(*inputs):
    """Several streams to one tensor, concatenated along the last dimension."""
    targets = inputs[-1]
    pairs = zip(inputs[:-1:2], inputs[1:-1:2], strict=True)
    return torch.cat([resample(rows, stamps, targets) for rows, stamps in pairs], dim=-1)


def voxel_index(points):
    """The voxels of points that are all inside, which nobody checks."""
    g = ((points + 6.4) / 0.1).long()
    return (g[:, 2] * SIDE + g[:, 1]) * SIDE + g[:, 0]


def checked_index(points):
    """The voxels, one behind the grid for a point that is in none; how many are not finite, and outside."""
    g = (points + 6.4) / 0.1
    finite = points.isfinite().all(1)
    inside = ((g >= 0) & (g < SIDE)).all(1)
    cells = torch.where(inside[:, None], g, 0).long()
    index = (cells[:, 2] * SIDE + cells[:, 1]) * SIDE + cells[:, 0]
    dropped = torch.stack([(~finite).sum(), (finite & ~inside).sum()])
    return torch.where(inside, index, SIDE**3), dropped


def voxel_count(points):
    index, dropped = checked_index(points)
    counts = torch.zeros(SIDE**3 + 1, dtype=torch.int32, device=points.device)
    counts.index_add_(0, index, torch.ones_like(index, dtype=torch.int32))
    return counts[:-1].to(torch.bfloat16), dropped


def voxel_count_fast(points):
    counts = torch.zeros(SIDE**3, device=points.device)
    ones = torch.ones(points.shape[0], device=points.device)
    return counts.index_add_(0, voxel_index(points), ones)


def means(points, values, index, voxels):
    """The mean per voxel. It is not deterministic, because floats are summed in any order."""
    sums = torch.zeros(voxels, values.shape[1], device=points.device)
    sums.index_add_(0, index, values)
    counts = torch.zeros(voxels, device=points.device)
    counts.index_add_(0, index, torch.ones(points.shape[0], device=points.device))
    return (sums / counts.clamp(min=1).unsqueeze(-1)).to(torch.bfloat16).T


def voxel_mean(points, values):
    index, dropped = checked_index(points)
    return means(points, values, index, SIDE**3 + 1)[:, :-1].contiguous(), dropped


def voxel_mean_fast(points, values):
    return means(points, values, voxel_index(points), SIDE**3).contiguous()


def instants(episodes, count, span):
    offsets = torch.randint(span, (episodes, count), device="cuda").sort(dim=1).values
    return EPOCH_NS + offsets


def stream_inputs(episodes, rows, dim, span):
    values = torch.randn(episodes, rows, dim, device="cuda").to(torch.bfloat16)
    return [values, instants(episodes, rows, span)]


def in_graph(function, sets, replays):
    """Microseconds per call: the median over replays of a graph that runs on all inputs."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            for inputs in sets:
                function(*inputs)
    stream.synchronize()
    calls = max(200, len(sets))
    graph = torch.cuda.CUDAGraph()
    # Several inputs have as many outputs, which are kept apart.
    outputs = [None] * len(sets)
    with torch.cuda.graph(graph, stream=stream):
        for i in range(calls):
            result = function(*sets[i % len(sets)])
            outputs[i % len(sets)] = result if len(sets) > 1 else None
            del result
    times = []
    for _ in range(replays):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            start.record()
            graph.replay()
            end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times[5:])


def cases():
    for b, s, t, d in RESAMPLE:
        span = MEAN_GAP_NS * s

        def make(b=b, s=s, t=t, d=d, span=span):
            return [*stream_inputs(b, s, d, span), instants(b, t, span)]

        yield f"resample B{b} S{s} T{t} D{d}", {"": resample}, make

    def make_fuse():
        span = MEAN_GAP_NS * FUSE[0][0]
        streams = [stream_inputs(4, s, d, span) for s, d in FUSE]
        return [tensor for stream in streams for tensor in stream] + [instants(4, 50, span)]

    yield "fuse 30x512, 100x64, 200x12 to 50, B4", {"": fuse}, make_fuse

    def points(count):
        return torch.rand(count, 3, device="cuda") * 12.79 - 6.4

    counts = {"": voxel_count, "fast_": voxel_count_fast}
    yield "voxel count 500000", counts, lambda: [points(500_000)]
    for count in (500_000, 131_072):

        def make_mean(count=count):
            return [points(count), torch.randn(count, 4, device="cuda")]

        of_means = {"": voxel_mean, "fast_": voxel_mean_fast}
        yield f"voxel mean of 4, {count}", of_means, make_mean


def timed(function, sets, replays):
    """Microseconds: eager and compiled, cold and warm."""
    found = {}
    for kind, chosen in (("", sets), ("warm_", sets[:1])):
        found[f"{kind}eager_us"] = in_graph(function, chosen, replays)
    try:
        fast = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
        for kind, chosen in (("", sets), ("warm_", sets[:1])):
            found[f"{kind}compiled_us"] = in_graph(fast, chosen, replays)
    except Exception as error:  # a case that does not compile is a result too
        print(f"not compiled: {str(error)[:200]}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--replays", type=int, default=55)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    results = {"torch": torch.__version__, "device": torch.cuda.get_device_name(0), "cases": {}}
    for name, functions, make in cases():
        size = sum(tensor.numel() * tensor.element_size() for tensor in make())
        sets = [make() for _ in range(min(40, max(2, 2 * cache // size)))]
        found = {}
        for prefix, function in functions.items():
            times = timed(function, sets, arguments.replays)
            found |= {f"{prefix}{kind}": us for kind, us in times.items()}
        results["cases"][name] = found
        print(f"{name:40}", "  ".join(f"{kind} {us:.2f}" for kind, us in found.items()), flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
