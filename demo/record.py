"""Record the simulated robot: the robot and the node run for a while, and the node records what it receives.

    python3 demo/record.py [--seconds 20] [--config config/robocache.yaml] [--output recordings]

`make record` builds first and calls this with ROS sourced. It needs no `ros2` program. Ctrl-C ends the recording early.
The exit code is 0 only if both processes ended with exit code 0.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / part) for part in ("scripts", "python")]

from domains import free_domain  # noqa: E402
from processes import Processes, ProcessFailure, executable, private_environment  # noqa: E402

#: Data rate of the robot on the shipped configuration's topics, about [MB/s].
MB_PER_S = 80


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=f"Record the simulated robot: about {MB_PER_S} MB per second."
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="length [s] (20)")
    parser.add_argument(
        "--config",
        type=Path,
        default=REPOSITORY / "config" / "robocache.yaml",
        help="configuration of the node; its topics are recorded (config/robocache.yaml)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=REPOSITORY / "recordings",
        help="folder in which the recording becomes a folder of its own (recordings)",
    )
    arguments = parser.parse_args()
    if arguments.seconds <= 0:
        parser.error(f"--seconds: expected a number greater than 0, found {arguments.seconds:g}")
    return arguments


def record(runs, seconds, config, logs, beside=(), robot=(), done=lambda: False, parameters=()):
    """Runs robot and node for a while; the node records into a new folder of `runs`. Returns this folder.

    The robot is always the same, and its motion is a function of the clock. So no run repeats another.

    Args:
        logs: The folder of the processes' output.
        beside: (name, command) of other processes.
        robot: options of sensor_sim.
        done: is called often, and ends the recording early if it returns True.
        parameters: others of the node, such as "commands:=enabled".
    """
    before = set(runs.iterdir()) if runs.is_dir() else set()
    with Processes(logs) as processes:
        try:
            processes.start("sensor_sim", [executable("sensor_sim"), *robot])
            node = [executable("fusion_node"), "--ros-args", "-p", f"config_file:={config}"]
            given = [f"record_to:={runs}", *parameters]
            node += [word for parameter in given for word in ("-p", parameter)]
            processes.start("fusion_node", node)
            for name, command in beside:
                processes.start(name, command)
            end = time.monotonic() + seconds
            while time.monotonic() < end and not done():
                time.sleep(0.2)
                processes.check()
        except KeyboardInterrupt:
            pass  # what is recorded so far is a whole recording
    if processes.problems:
        raise ProcessFailure("; ".join(processes.problems))
    made = (set(runs.iterdir()) if runs.is_dir() else set()) - before
    if not made:
        raise ProcessFailure("expected a recording, found none: it ended before the node began one")
    return made.pop()


def main():
    arguments = parse_arguments()
    private_environment(free_domain())
    # A shell starts a background job with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = arguments.output
    print(
        f"recording {arguments.seconds:g} s of the simulated robot into {output}: about "
        f"{MB_PER_S * arguments.seconds / 1000:.1f} GB ({MB_PER_S} MB/s)",
        flush=True,
    )
    try:
        run = record(output, arguments.seconds, arguments.config, REPOSITORY / "demo")
    except (ProcessFailure, OSError) as failure:
        print(f"record: {failure}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in run.iterdir())
    print(f"{run}: {size / 1e9:.2f} GB")
    print(f"next: robocache replay {output} --config {arguments.config} --out data --format rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
