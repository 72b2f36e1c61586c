"""Times of the operations from Python beside torch: `python benches/python_operations.py [--json FILE] [--device cpu|cuda]`.

Peers do the same in eager and in compiled torch, with int64 times and with float32 times relative to the first. One
line per case: microseconds per call, the median of repeats. On a GPU a call is timed in a CUDA graph, and the host's
time in a queue of calls. Calls of the earlier RoboCache's functions are also timed one by one.
"""

import argparse
import ctypes
import json
import platform
import statistics
import time

import torch

import robocache

CASES = {
    "resample B1 S500 T16 D32": (1, 500, 16, 32),
    "resample B32 S50 T256 D128": (32, 50, 256, 128),
    "resample B32 S500 T250 D256": (32, 500, 250, 256),
    "resample B64 S4096 T1024 D32": (64, 4096, 1024, 32),
    "resample B64 S1000 T500 D512": (64, 1000, 500, 512),
}
STREAMS = [(30, 512), (100, 64), (200, 12)]
TINY = (1, 4, 2, 3)
# Five seconds of 30, 100 and 500 Hz, as the earlier RoboCache fuses them.
MULTIMODAL = [(150, 512), (500, 14), (2500, 6)]


def inputs(shape, dtype, device, seed=0):
    """Rows, stamps and targets: evenly distributed, in order, some targets beyond both ends."""
    episodes, rows, steps, dim = shape
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(episodes, rows, dim, generator=random).to(dtype)
    span = 10_000_000 * rows
    base = 1_795_000_000_000_000_000
    stamps = torch.rand(episodes, rows, generator=random, dtype=torch.double).sort(1).values
    stamps = (stamps * span).long() + torch.arange(rows) + base
    targets = torch.rand(episodes, steps, generator=random, dtype=torch.double).sort(1).values
    targets = (targets * span * 1.02 - 0.01 * span).long() + base
    return tuple(each.to(device) for each in (values, stamps, targets))


def of_torch(rows, stamps, targets):
    """The same in torch, without validity and ages; times are int64 or float32."""
    after = torch.searchsorted(stamps, targets, right=True)
    last = stamps.shape[1] - 1
    low, high = (after - 1).clamp(0, last), after.clamp(0, last)
    first, second = stamps.gather(1, low), stamps.gather(1, high)
    weight = (targets - first).float() / (second - first).clamp(min=1e-9).float()
    weight = weight.clamp(0, 1)[..., None]
    wide = (-1, -1, rows.shape[2])
    a = rows.gather(1, low[..., None].expand(wide)).float()
    b = rows.gather(1, high[..., None].expand(wide)).float()
    return torch.lerp(a, b, weight).to(rows.dtype)


def relative(stamps, targets):
    """Times as float32 seconds after the first."""
    first = stamps[:, :1]
    return ((stamps - first).double() * 1e-9).float(), ((targets - first).double() * 1e-9).float()


def microseconds(call, device, seconds):
    """The time of a call; on a GPU that of the device, from a graph of many calls."""
    for _ in range(3):
        call()
    if device == "cpu":
        return queued(call, device, seconds)
    # Enough calls that the start of the graph itself, some microseconds, has no weight.
    calls, graph = 200, torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(30):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times)


def queued(call, device, seconds):
    """The host's time per call, in a queue of calls."""
    for _ in range(3):
        call()
    start, count, times = time.perf_counter(), 1, []
    call()
    count = max(1, min(1000, int(seconds / 10 / max(time.perf_counter() - start, 1e-7))))
    for _ in range(10):
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(times)


def cases(dtype, device, compiles):
    """Name, and the implementations by name."""
    for name, shape in CASES.items():
        if compiles:
            # After several shapes, torch would run the function eagerly.
            torch._dynamo.reset()
            compiled = torch.compile(of_torch, dynamic=False)
        own = inputs(shape, dtype, device)
        floats = (own[0], *relative(*own[1:]))
        calls = {
            "ours": lambda own=own: robocache.resample(*own),
            "eager int64": lambda own=own: of_torch(*own),
            "eager float32": lambda floats=floats: of_torch(*floats),
        }
        if compiles:
            calls["compiled int64"] = lambda own=own, peer=compiled: peer(*own)
            calls["compiled float32"] = lambda floats=floats, peer=compiled: peer(*floats)
        yield name, calls
    streams = [inputs((4, rows, 50, dim), dtype, device, dim) for rows, dim in STREAMS]
    targets = streams[0][2]
    ours = [robocache.Stream(rows, stamps) for rows, stamps, _ in streams]

    def eager():
        return torch.cat([of_torch(rows, stamps, targets) for rows, stamps, _ in streams], -1)

    yield (
        "fuse 30x512, 100x64, 200x12 to 50, B4",
        {
            "ours": lambda: robocache.fuse(ours, targets),
            "eager int64": eager,
        },
    )


def counted(points, low, size, side):
    """The same as `voxelize_pointcloud` counts, in torch."""
    cells = (points - low) / size
    inside = ((cells >= 0) & (cells < side)).all(1)
    cells = torch.where(inside[:, None], cells, 0).long()
    index = (cells[:, 0] * side + cells[:, 1]) * side + cells[:, 2]
    counts = torch.zeros(side**3 + 1, dtype=torch.int32, device=points.device)
    counts.index_add_(0, torch.where(inside, index, side**3), torch.ones_like(index).int())
    return counts[:-1].view(side, side, side)


def clouds(device, seconds):
    """Microseconds of `voxelize_pointcloud`: per call in a queue of calls, of the host and until the device is done."""
    low, size, side = -6.4, 0.1, 128
    random = torch.Generator().manual_seed(0)
    points = (torch.rand(500_000, 3, generator=random) * 12.79 + low).to(device)
    grid = {"grid_min": [low] * 3, "voxel_size": size, "grid_size": [side] * 3}
    calls = {
        "count": lambda: robocache.voxelize_pointcloud(points, mode="count", **grid),
        "occupancy": lambda: robocache.voxelize_pointcloud(points, **grid),
        "eager count": lambda: counted(points, low, size, side),
    }
    # Not the same at the faces of voxels: torch's quotient is by a double.
    assert (calls["count"]() - calls["eager count"]()).abs().sum() < 2000
    found = {}
    for name, call in calls.items():
        found[name] = {"host": queued(call, device, seconds), "call": finished(call, device)}
        if device != "cpu" and name != "eager count":
            try:
                found[name]["in a graph"] = microseconds(call, device, seconds)
            except RuntimeError as error:
                found[name]["in a graph"] = str(error).splitlines()[0]
    return found


def multimodal(device, seconds):
    """Microseconds of `fuse_multimodal` at 250 targets, 32 episodes and float32, and the launches of a call."""
    random = torch.Generator().manual_seed(0)
    streams = []
    for rows, dim in MULTIMODAL:
        times = torch.linspace(0, 5, rows).repeat(32, 1)
        streams.append((torch.randn(32, rows, dim, generator=random).to(device), times.to(device)))
    targets = torch.linspace(0, 5, 250).repeat(32, 1).to(device)
    arguments = [each for stream in streams for each in stream]
    calls = {
        "ours": lambda: robocache.fuse_multimodal(*arguments, targets),
        "eager": lambda: torch.cat([of_torch(*stream, targets) for stream in streams], -1),
    }
    torch.testing.assert_close(calls["ours"](), calls["eager"](), rtol=0, atol=1e-2)
    found = {}
    for name, call in calls.items():
        found[name] = {"host": queued(call, device, seconds), "call": finished(call, device)}
        found[name] |= one_by_one(call, device)
        if device != "cpu":
            found[name] |= {"in a graph": microseconds(call, device, seconds)}
            found[name] |= {"launches": launches(call)}
    return found


def one_by_one(call, device, count=200):
    """The time of a call that begins when the last one is done: of the device between two events, and all of it."""
    walls, devices = [], []
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device != "cpu" else []
    for _ in range(count if events else 20):
        start = time.perf_counter()
        if events:
            events[0].record()
        call()
        if events:
            events[1].record()
            events[1].synchronize()
            devices.append(events[0].elapsed_time(events[1]) * 1e3)
        walls.append((time.perf_counter() - start) * 1e6)
    found = {"one by one": statistics.median(walls)}
    return found | ({"between events": statistics.median(devices)} if events else {})


def launches(call):
    """Launches of a call: the nodes of its CUDA graph."""
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        call()
    nodes = ctypes.c_size_t()
    raw = ctypes.c_void_p(graph.raw_cuda_graph())
    status = ctypes.CDLL("libcuda.so.1").cuGraphGetNodes(raw, None, ctypes.byref(nodes))
    if status:
        raise RuntimeError(f"expected the nodes of a graph, found the error {status}")
    return nodes.value


def finished(call, device, count=200):
    """The time per call in a queue of calls, until the device is done."""
    times = []
    for _ in range(12):
        start = time.perf_counter()
        for _ in range(count if device != "cpu" else 5):
            call()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / (count if device != "cpu" else 5) * 1e6)
    return statistics.median(times[2:])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments.add_argument("--dtype", choices=["float32", "bfloat16"])
    arguments.add_argument("--compile", action="store_true", help="time torch.compile as well")
    arguments.add_argument("--seconds", type=float, default=2.0, help="per case and peer, on a CPU")
    arguments.add_argument("--json")
    options = arguments.parse_args()
    device = options.device
    dtype = getattr(torch, options.dtype or ("float32" if device == "cpu" else "bfloat16"))
    machine = torch.cuda.get_device_name() if device != "cpu" else platform.processor()
    report = {
        "device": machine,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "dtype": str(dtype),
        "microseconds": {},
    }
    for name, calls in cases(dtype, device, options.compile):
        found = {peer: microseconds(call, device, options.seconds) for peer, call in calls.items()}
        report["microseconds"][name] = found
        print(f"{name:40}", "  ".join(f"{peer} {us:.1f}" for peer, us in found.items()), flush=True)
    tiny = inputs(TINY, dtype, device)
    host = queued(lambda: robocache.resample(*tiny), device, options.seconds)
    report["microseconds"]["host time of resample"] = {"ours": host}
    print(f"host time of resample: {host:.2f}")
    report["microseconds"]["voxelize_pointcloud 500000, 128^3"] = clouds(device, options.seconds)
    print(json.dumps(report["microseconds"]["voxelize_pointcloud 500000, 128^3"]))
    name = "fuse_multimodal 150x512, 500x14, 2500x6 to 250, B32"
    report["microseconds"][name] = multimodal(device, options.seconds)
    print(json.dumps(report["microseconds"][name]))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
