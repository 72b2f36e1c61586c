"""How fast bags become rows and tensors, beside the script that one would write with rosbags, NumPy, Pillow and zarr.

    replay.py --out FOLDER                  one recording of 60 s: parts of the replay, files, the script
    replay.py --out FOLDER --copies 16      the same recording 16 times at once

Needs `robocache` and `robocache_recording` (ROBOCACHE and ROBOCACHE_RECORDING name them), and for the script rosbags,
NumPy, Pillow and zarr. The recording is read once before, so that it is in the page cache. Every figure is the median
of the runs, which alternate. Seconds of processor time are those of all threads.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"
ROBOCACHE = os.environ.get("ROBOCACHE", str(RELEASE / "robocache"))
RECORDING = os.environ.get("ROBOCACHE_RECORDING", str(RELEASE / "robocache_recording"))
CONFIG = REPOSITORY / "config/robocache.yaml"
PEER = REPOSITORY / "benches/peers/replay_script.py"


def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timed(command):
    """Runs a command; returns its wall and processor seconds, and what it printed."""
    command = [str(word) for word in command]
    started, before = time.perf_counter(), used()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return time.perf_counter() - started, used() - before, done.stdout


def of_part(bag, what, options):
    """A part of the replay, as the benchmark's program times it."""
    backend = ["--backend", options.backend] if what != "read" else []
    _, _, said = timed([RECORDING, "time", bag, "--config", CONFIG, "--what", what, *backend])
    said = json.loads(said)
    return said["wall_s"], said["cpu_s"], said


def of_files(bags, out, options, kind):
    """Files of a format, on the disk."""
    shutil.rmtree(out, ignore_errors=True)
    command = [ROBOCACHE, "replay", *bags, "--config", CONFIG, "--out", out, "--format", kind]
    wall, cpu, _ = timed([*command, "--backend", options.backend])
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    shutil.rmtree(out)
    return wall, cpu, {"bytes": size}


def of_script(bag, out, what):
    wall, cpu, said = timed([sys.executable, PEER, bag, CONFIG, what, *([out] if out else [])])
    if out:
        shutil.rmtree(out, ignore_errors=True)
    said = json.loads(said)
    return said["wall_s"], said["cpu_s"], said


def cases(bag, options):
    """Name to a function that runs it once."""
    out = options.out / "result"
    all_cases = {
        what: (lambda what=what: of_part(bag, what, options)) for what in ("read", "rows", "ticks")
    }
    for kind in ("rows", "zarr", "mcap"):
        all_cases[f"--format {kind}"] = lambda kind=kind: of_files([bag], out, options, kind)
    if not options.no_script:
        all_cases["script, rows"] = lambda: of_script(bag, out, "rows")
        all_cases["script, ticks"] = lambda: of_script(bag, None, "ticks")
    return {
        name: run for name, run in all_cases.items() if not options.case or options.case in name
    }


def one(bag, options):
    runs = {name: [] for name in cases(bag, options)}
    for _ in range(options.runs):
        for name, run in cases(bag, options).items():
            runs[name].append(run())
            print(name, runs[name][-1], file=sys.stderr, flush=True)
    medians = {}
    for name, results in runs.items():
        wall, cpu = (statistics.median(result[k] for result in results) for k in (0, 1))
        medians[name] = {**results[-1][2], "wall_s": wall, "cpu_s": cpu}
    print(f"{'':16} {'wall s':>8} {'times real time':>16} {'cpu s':>8}")
    for name, result in medians.items():
        speed = options.seconds / result["wall_s"]
        print(f"{name:16} {result['wall_s']:8.2f} {speed:16.1f} {result['cpu_s']:8.2f}")
    return medians


def many(bag, options):
    """The same recording several times at once: the whole replay, and its upper bounds."""
    copies = []
    for k in range(options.copies):
        copy = options.out / f"copy{k}.mcap"
        if not copy.exists():
            os.link(bag, copy)
        copies.append(copy)
    size = bag.stat().st_size
    data_s = options.seconds * options.copies
    results = {}
    # One process, as `robocache replay` is. Reading alone: the bandwidth of the memory.
    for what in ("read", "rows", "ticks"):
        command = [RECORDING, "time", *copies, "--config", CONFIG, "--what", what]
        _, _, said = timed([*command, "--backend", options.backend, "--threads", "1"])
        said = json.loads(said)
        print(what, said, file=sys.stderr, flush=True)
        results[f"{what}, in memory"] = said["wall_s"]
    for kind in ("rows", "zarr"):
        wall, cpu, said = of_files(copies, options.out / "result", options, kind)
        results[f"--format {kind}"] = wall
        print(kind, wall, cpu, said, file=sys.stderr, flush=True)
    print(f"{options.copies} at once, {os.cpu_count()} cores, --backend {options.backend}")
    print(
        "in memory: without the start of CUDA and of the backends; with files: all of the command"
    )
    for name, wall in results.items():
        rate = options.copies * size / wall / 1e9
        print(
            f"{name:18} {wall:8.2f} s {data_s / wall:8.1f} times real time {rate:6.1f} GB/s of bags"
        )
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for recording and results")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--backend", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--case", help="only the cases whose name contains this")
    parser.add_argument("--no-script", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    bag = options.out / f"robot_{options.seconds:g}s.mcap"
    if not bag.exists():
        timed([RECORDING, "write", bag, "--seconds", options.seconds])
    with bag.open("rb") as file:
        while file.read(1 << 24):
            pass
    results = many(bag, options) if options.copies else one(bag, options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
