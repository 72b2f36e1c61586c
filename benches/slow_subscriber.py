"""A stopped subscriber beside a healthy one: what does it cost the ticks and the healthy one?

    python3 benches/slow_subscriber.py --programs DIR --load DIR [--seconds 20] [--rounds 3]

Runs the node on the reference robot at 100 Hz with two reliable subscribers (`robocache_load watch`).
In every second run one of them is stopped (SIGSTOP). Each case runs with Fast DDS's synchronous and
asynchronous publication. Prints p99 of ticks by the node's own diagnostics, overruns, and the p99 of
the healthy subscriber, from a tick's instant to the arrival of its tensor; medians of the rounds.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIG = REPOSITORY / "config" / "robocache.yaml"
MODES = ("SYNCHRONOUS", "ASYNCHRONOUS")


def start(command, log, **environment):
    """A process with its output in a file."""
    with open(log, "w") as file:
        return subprocess.Popen(
            [str(part) for part in command],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )


def end(process):
    """Ends a process, also a stopped one."""
    for number in (signal.SIGCONT, signal.SIGINT):
        if process.poll() is None:
            process.send_signal(number)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(options, mode, stopped, folder):
    """One run; returns the figures of the healthy subscriber and of the node."""
    node = [options.programs / "fusion_node", "--ros-args", "-p", f"config_file:={CONFIG}"]
    watch = [options.load / "robocache_load", "watch", "--seconds", options.seconds]
    children = [start(node, folder / "node.log", RMW_FASTRTPS_PUBLICATION_MODE=mode)]
    children.append(start([options.programs / "sensor_sim"], folder / "sim.log"))
    try:
        other = start([*watch[:-1], 600], folder / "other.log")
        children.append(other)
        time.sleep(5)
        if stopped:
            other.send_signal(signal.SIGSTOP)
        healthy = start(watch, folder / "healthy.log")
        children.append(healthy)
        healthy.wait(options.seconds + 90)
        seen = json.loads((folder / "healthy.log").read_text().splitlines()[-1])
    finally:
        for child in reversed(children):
            end(child)
    tick = seen["diagnostics"]["tick"]
    return {
        "tick_p99_ms": float(tick["total_latency_p99_ms"]),
        "overruns": int(tick["overruns"]),
        "unsent": int(tick.get("unsent", 0)),
        "arrival_p99_ms": seen["latency"]["p99_ms"],
        "missed": seen["missed"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, required=True, help="fusion_node, sensor_sim")
    parser.add_argument("--load", type=Path, required=True, help="robocache_load")
    parser.add_argument("--seconds", type=float, default=20.0, help="per run [s] (20)")
    parser.add_argument("--rounds", type=int, default=3, help="runs per case (3)")
    parser.add_argument("--domain-id", type=int, default=78, help="ROS_DOMAIN_ID (78)")
    options = parser.parse_args()
    os.environ["ROS_DOMAIN_ID"] = str(options.domain_id)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    cases = [(mode, stopped) for mode in MODES for stopped in (False, True)]
    results = {case: [] for case in cases}
    for _ in range(options.rounds):
        for case in cases:
            with tempfile.TemporaryDirectory() as folder:
                results[case].append(run(options, *case, Path(folder)))
            print(*case, json.dumps(results[case][-1]), flush=True)
    for (mode, stopped), rows in results.items():
        figures = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        print(f"{mode:13} {'one stopped' if stopped else 'both run':12} {json.dumps(figures)}")


if __name__ == "__main__":
    main()
