"""Times the cases of `robocache_bench` in PyTorch, as a user would write them.

It times eager operations and torch.compile (max-autotune-no-cudagraphs). Both are captured in a
CUDA graph, so that only the device is timed. The inputs rotate through more memory than the cache
holds.
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
    g = ((points + 6.4) / 0.1).long()
    return (g[:, 2] * SIDE + g[:, 1]) * SIDE + g[:, 0]


def voxel_count(points):
    counts = torch.zeros(SIDE**3, device=points.device)
    ones = torch.ones(points.shape[0], device=points.device)
    return counts.index_add_(0, voxel_index(points), ones)


def voxel_mean(points, values):
    """The mean per voxel. It is not deterministic, because floats are summed in any order."""
    index = voxel_index(points)
    sums = torch.zeros(SIDE**3, values.shape[1], device=points.device)
    sums.index_add_(0, index, values)
    counts = torch.zeros(SIDE**3, device=points.device)
    counts.index_add_(0, index, torch.ones(points.shape[0], device=points.device))
    return (sums / counts.clamp(min=1).unsqueeze(-1)).to(torch.bfloat16).T.contiguous()


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
    with torch.cuda.graph(graph, stream=stream):
        for i in range(calls):
            function(*sets[i % len(sets)])
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

        yield f"resample B{b} S{s} T{t} D{d}", resample, make

    def make_fuse():
        span = MEAN_GAP_NS * FUSE[0][0]
        streams = [stream_inputs(4, s, d, span) for s, d in FUSE]
        return [tensor for stream in streams for tensor in stream] + [instants(4, 50, span)]

    yield "fuse 30x512, 100x64, 200x12 to 50, B4", fuse, make_fuse

    def points(count):
        return torch.rand(count, 3, device="cuda") * 12.79 - 6.4

    yield "voxel count 500000", voxel_count, lambda: [points(500_000)]
    for count in (500_000, 131_072):

        def make_mean(count=count):
            return [points(count), torch.randn(count, 4, device="cuda")]

        yield f"voxel mean of 4, {count}", voxel_mean, make_mean


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--replays", type=int, default=55)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    results = {"torch": torch.__version__, "device": torch.cuda.get_device_name(0), "cases": {}}
    for name, function, make in cases():
        size = sum(tensor.numel() * tensor.element_size() for tensor in make())
        sets = [make() for _ in range(min(40, max(2, 2 * cache // size)))]
        eager = in_graph(function, sets, arguments.replays)
        compiled = None
        try:
            fast = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
            compiled = in_graph(fast, sets, arguments.replays)
        except Exception as error:  # a case that does not compile is a result too
            print(f"{name}: not compiled: {str(error)[:200]}")
        results["cases"][name] = {"eager_us": eager, "compiled_us": compiled}
        shown = "-" if compiled is None else f"{compiled:.2f}"
        print(f"{name:45} eager {eager:8.2f} us  compiled {shown:>8} us", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
