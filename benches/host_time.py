"""The host's time of calls of the Python package on a GPU, and that of an earlier package in turns.

    python3 benches/host_time.py [--old FOLDER] [--rounds 5]

FOLDER holds `robocache`, the package of an earlier commit. Each round is a process of its own, old and new in turns.
Prints JSON: of each call the median of the rounds, and the lowest and the highest, in microseconds. Calls follow each other
without a wait for the GPU. `torch.add` shows how much the rounds differ by themselves.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

NEW = Path(__file__).resolve().parent.parent / "python"


def one():
    """The microseconds of each call, with the package on the path."""
    import python_operations
    import torch
    import windows

    import robocache

    cache = windows.made(4, 10)
    order = {"period_ns": windows.MS, "batch_size": 64}
    margin_ns = (400 * windows.MS, 1100 * windows.MS)
    sampler = robocache.WindowSampler.of(cache, **order, margin_ns=margin_ns)
    gpu = cache.to("cuda")
    tiny = python_operations.inputs(python_operations.TINY, torch.bfloat16, "cuda")
    return {
        "windows of 64 items": windows.host_time(gpu, sampler, windows.CONFIG),
        "windows of 64 items, planned": windows.host_time(gpu, sampler, gpu.plan(windows.CONFIG)),
        "resample": python_operations.queued(lambda: robocache.resample(*tiny), "cuda", 2.0),
        "torch.add of the same rows": python_operations.queued(
            lambda: torch.add(tiny[0], tiny[0]), "cuda", 2.0
        ),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, help="folder of an earlier package")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one()))
        return
    packages = {"old": options.old, "new": NEW} if options.old else {"new": NEW}
    rounds = {name: [] for name in packages}
    for _ in range(options.rounds):
        for name, folder in packages.items():
            path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
            environment = {**os.environ, "PYTHONPATH": path}
            command = [sys.executable, __file__, "--one"]
            run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
            rounds[name].append(json.loads(run.stdout))
    found = {}
    for name, each in rounds.items():
        for call in each[0]:
            times = sorted(own[call] for own in each)
            middle = statistics.median(times)
            found.setdefault(call, {})[name] = [
                round(us, 2) for us in (middle, times[0], times[-1])
            ]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
