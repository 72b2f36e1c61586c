"""Ticks at 1 kHz beside a process that trains on the same GPU, and beside a GPU that fails.

Runs the soak of `robocache_bench` (two cameras, a lidar, joints, a wrench, an IMU; no ROS) with each
backend, alone and while train.py trains; and with `auto` while the driver fails or hangs in the
middle (cuda_faults.c). Prints a table and the targets of `auto`. The exit code is 1 if `auto` misses
one, or if bits differ anywhere.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: The training must start within this time [s]: PyTorch loads its kernels first.
TRAINING_STARTS_S = 180
#: Greatest tick p99 of `auto` beside the training, as a multiple of that without it.
MOST_TICK_RATIO = 1.3
#: Greatest increase of the image age p99 of `auto` beside the training [ms].
MOST_AGE_MS = 5.0

FAULTS = {"launches fail": "cuLaunchKernelEx:{at}s:719", "waits hang": "cuStreamQuery:{at}s:hang"}


def main():
    """Runs all, prints the results, and writes them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", type=Path, required=True, help="the program robocache_bench")
    parser.add_argument("--faults", type=Path, help="cuda_faults.so; without it, no faults")
    parser.add_argument("--seconds", type=int, default=60, help="of each run")
    parser.add_argument("--fault-seconds", type=int, default=24, help="of each run with a fault")
    parser.add_argument("--backends", nargs="+", default=["auto", "cuda", "cpu"])
    parser.add_argument("--json", type=Path, required=True, help="the results")
    options = parser.parse_args()
    out = options.json.parent
    runs = {}
    for backend in options.backends:
        runs[f"{backend}, alone"] = soak(options.bench, backend, options.seconds, out)
    with training(out / "beside_train.txt") as steps:
        for backend in options.backends:
            before, since = steps(), time.monotonic()
            run = soak(options.bench, backend, options.seconds, out)
            rate = (steps() - before) / (time.monotonic() - since)
            runs[f"{backend}, beside training"] = {**run, "training_steps_per_s": rate}
    if options.faults:
        for name, fault in FAULTS.items():
            # Half of the time is before the fault, start and warm-up included.
            fault = fault.format(at=options.fault_seconds // 2)
            seconds = options.fault_seconds
            env = {"LD_PRELOAD": str(options.faults.resolve()), "ROBOCACHE_TEST_FAULT": fault}
            runs[f"auto, {name}"] = soak(options.bench, "auto", seconds, out, env)
    targets = judge(runs)
    options.json.write_text(json.dumps({"runs": runs, "targets": targets}, indent=1))
    print(table(runs))
    for target in targets:
        print(("reached" if target["reached"] else "MISSED ") + f"  {target['what']}")
    return 0 if all(target["reached"] for target in targets) else 1


def soak(bench, backend, seconds, out, env=None):
    """Runs a soak, and returns its report."""
    report = out / "beside_run.json"
    report.unlink(missing_ok=True)
    command = [bench, "--backend", backend, "--soak-s", str(seconds), "--json", report]
    environment = {**os.environ, **(env or {})}
    ended = subprocess.run(
        command, env=environment, timeout=seconds + 120, capture_output=True, text=True, check=False
    )
    if not report.exists():
        raise SystemExit(f"{backend}: exit code {ended.returncode}\n{ended.stderr}")
    with (out / "beside_log.txt").open("a") as log:
        log.write(f"{backend} {env or ''}\n{ended.stdout}{ended.stderr}\n")
    found = json.loads(report.read_text())
    report.unlink()
    return {"backend": found["backend"], "device": found["device"], **found["soak"]}


@contextmanager
def training(log):
    """Trains in the background; gives a function that returns the number of steps so far."""
    with log.open("w") as file:
        command = [sys.executable, HERE / "train.py"]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def steps():
        if process.poll() is not None:
            raise SystemExit(f"the training ended with {process.returncode}\n{log.read_text()}")
        lines = [line.split() for line in log.read_text().splitlines()]
        return max((int(line[0]) for line in lines if line[1:] == ["steps"]), default=0)

    try:
        deadline = time.monotonic() + TRAINING_STARTS_S
        while "training\n" not in log.read_text():
            steps()
            if time.monotonic() > deadline:
                raise SystemExit(f"no training within {TRAINING_STARTS_S} s\n{log.read_text()}")
            time.sleep(0.1)
        yield steps
    finally:
        process.terminate()
        process.wait(60)


def woke_late(run):
    """Ticks that were missed because the host did not run the thread in time."""
    return run["overruns"] - run["overruns_by_ticks"] - run["overruns_by_copies"]


def judge(runs):
    """The targets of `auto`, and whether each is reached."""
    targets = []

    def target(reached, what):
        targets.append({"reached": bool(reached), "what": what})

    alone, beside = runs.get("auto, alone"), runs.get("auto, beside training")
    if alone and beside:
        late, bare = woke_late(beside), beside["probe_overruns"]
        target(
            beside["overruns_by_ticks"] == 0 and late <= bare,
            f"beside training: no overrun that a bare thread does not have: "
            f"{beside['overruns_by_ticks']} after long ticks, {late} woke late, {bare} of the "
            "bare thread",
        )
        ratio = beside["tick_us"]["p99"] / alone["tick_us"]["p99"]
        target(
            ratio <= MOST_TICK_RATIO,
            f"beside training: tick p99 at most {MOST_TICK_RATIO} times that alone: {ratio:.2f}",
        )
        older_ms = (beside["image_age_us"]["p99"] - alone["image_age_us"]["p99"]) / 1e3
        target(
            older_ms <= MOST_AGE_MS,
            f"beside training: image age p99 at most {MOST_AGE_MS} ms higher: {older_ms:.2f}",
        )
    for name, run in runs.items():
        different = [problem for problem in run["problems"] if "expected the bits" in problem]
        target(
            not different and run["compared"] > 0,
            f"{name}: the bits of the CPU: {run['compared']} ticks compared",
        )
    for name in FAULTS:
        run = runs.get(f"auto, {name}")
        if run:
            gpu, long = run["processors"]["gpu"], run["overruns_by_ticks"]
            target(gpu.startswith("left: "), f"{name}: the GPU is left: {gpu}")
            late, bare = woke_late(run), run["probe_overruns"]
            target(
                long == 0 and late <= bare and run["refused"] == 0,
                f"{name}: no tick and no message lost: {long} overruns after long ticks, {late} "
                f"woke late ({bare} of the bare thread), {run['refused']} messages refused",
            )
    return targets


def table(runs):
    """The runs, one line each."""
    head = [
        "run",
        "overruns",
        "long ticks",
        "bare thread",
        "tick p50 us",
        "p99",
        "image age p99 ms",
    ]
    lines = ["  ".join([f"{head[0]:24}", *(f"{name:>11}" for name in head[1:])])]
    for name, run in runs.items():
        numbers = [
            f"{run['overruns']}",
            f"{run['overruns_by_ticks']}",
            f"{run['probe_overruns']}",
            f"{run['tick_us']['p50']:.1f}",
            f"{run['tick_us']['p99']:.1f}",
            f"{run['image_age_us']['p99'] / 1e3:.2f}",
        ]
        widths = [max(11, len(title)) for title in head[1:]]
        cells = [f"{number:>{width}}" for number, width in zip(numbers, widths, strict=True)]
        lines.append("  ".join([f"{name:24}", *cells]))
        processors = run["processors"]
        for stream in processors["streams"]:
            times = " / ".join(
                "-" if us is None else f"{us:.0f}" for us in (stream["cpu_us"], stream["gpu_us"])
            )
            lines.append(
                f"    {stream['stream']:20}  {stream['by_cpu']} rows by cores, {stream['by_gpu']} by "
                f"the GPU, {stream['takeovers']} taken over; us: {times}"
            )
        if processors["gpu"].startswith("left"):
            lines.append(f"    GPU {processors['gpu']}")
        if "training_steps_per_s" in run:
            lines.append(f"    training: {run['training_steps_per_s']:.2f} steps per second")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
