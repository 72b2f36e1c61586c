"""The benchmark of the way back: how soon a chunk becomes a command, and what commands cost.

    python3 benches/commands.py [--seconds 20] [--only delay,rate]

`delay`: a policy without ROS answers tensors after a drawn time, by shared memory, and the node commands at 250 Hz.
    The delay of a chunk is the time from its send to the instant of the first command with its value, plus the p99 of
    the node from that instant to the return of publish. So it is that of no command but the slowest.
`rate`: 14 joints at 1,000 Hz beside the reference robot and configuration.

The exit code is 0 if all cases were measured, even if a target was not reached.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "scripts"), str(REPOSITORY / "python")]

import bench  # noqa: E402
import numpy as np  # noqa: E402
from domains import free_domain  # noqa: E402
from processes import (  # noqa: E402
    Diagnostics,
    Processes,
    ProcessFailure,
    executable,
    number,
    private_environment,
    thread_seconds,
    thread_times,
)

CASES = ("delay", "rate")
WARM_UP_S = 8.0
#: A report must come within this time [s].
SILENT_S = 30.0
JOINTS = [f"joint_{joint}" for joint in range(14)]
DELAY_HZ, RATE_HZ = 250, 1000
#: Chunks that the probe may have sent while the node ended.
CHUNKS_AT_END = 20


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="per measurement [s] (20)")
    parser.add_argument("--only", default=",".join(CASES), help="cases (all)")
    parser.add_argument("--output", default=str(REPOSITORY / "bench"), help="folder (bench)")
    arguments = parser.parse_args(argv)
    arguments.only = arguments.only.split(",")
    unknown = sorted(set(arguments.only) - set(CASES))
    if unknown:
        parser.error(f"--only: expected some of {', '.join(CASES)}, found {', '.join(unknown)}")
    if arguments.seconds < 2:
        parser.error(f"--seconds: expected 2 or more, found {arguments.seconds:g}")
    return arguments


def configuration(folder, rate_hz):
    """The reference configuration with commands at this rate. Returns its file."""
    kind = "sensor_msgs/msg/JointState" if rate_hz == DELAY_HZ else "std_msgs/msg/Float64MultiArray"
    # A command is the newest chunk's row, so that it names its chunk. The cost is that of limits, too.
    limits = {name: {"position": [-9, 9], "velocity": 2, "acceleration": 10} for name in JOINTS}
    group = {
        "joints": JOINTS,
        "rows": {"steps": 50, "step_ms": 20},
        "start_from": "joints",
        "watchdog_ms": 1200,
        "output": {"topic": "/commands", "type": kind},
    }
    if rate_hz == DELAY_HZ:
        ends = {"limits": "none", "blend_ms": 0, "on_stall": "hold", "on_end": "hold"}
        group.update(ends, interpolate="hold")
    else:
        group.update(limits={"joints": limits}, interpolate="cubic")
    # JSON is YAML.
    commands = json.dumps({"rate_hz": rate_hz, "groups": {"arm": group}})
    text = f"{bench.REFERENCE.read_text(encoding='utf-8')}\ncommands: {commands}\n"
    file = Path(folder).resolve() / f"commands_{rate_hz}.yaml"
    file.write_text(text, encoding="utf-8")
    return file


class Rig:
    """A client of the diagnostics, and where logs go."""

    def __init__(self, arguments):
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        rclpy.init()
        self.arguments = arguments
        self.node = rclpy.create_node("bench_commands")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)

    def close(self):
        import rclpy

        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown()

    def spin(self, seconds, processes):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.2)
            processes.check()

    def case(self, name, rate_hz, policy):
        """Runs the reference robot, a node and a policy. Returns the figures of one measurement."""
        seconds = self.arguments.seconds
        folder = self.arguments.output
        service = f"robocache_bench/{os.getpid()}/{name}"
        node = [executable("fusion_node"), "--ros-args"]
        node += ["-p", f"config_file:={configuration(folder, rate_hz)}"]
        node += ["-p", f"diagnostics_period_s:={seconds / 2:.3f}", "-p", "commands:=enabled"]
        node += ["-p", f"shared_output:={service}"]
        probe_output = Path(folder).resolve() / f"{name}.npz"
        probe_output.unlink(missing_ok=True)
        probe = [sys.executable, REPOSITORY / "benches" / "command_probe.py", probe_output, service]
        diagnostics = Diagnostics(self.node)
        with Processes(folder) as processes:
            processes.start(f"{name}.sim", [executable("sensor_sim")])
            running = processes.start(f"{name}.node", node)
            processes.start(f"{name}.policy", [*probe, *policy])
            self.spin(WARM_UP_S, processes)
            self._await(diagnostics, processes, 1)
            before, at = self._reading(running, diagnostics), time.monotonic()
            # Two windows, so that the second is whole.
            self._await(diagnostics, processes, 2)
            after, measured = self._reading(running, diagnostics), time.monotonic() - at
        diagnostics.destroy()
        if processes.problems:
            raise ProcessFailure("\n".join(processes.problems))
        thread = thread_seconds(before["threads"], after["threads"])["command"]
        figures = {
            "node_cores": (after["node_s"] - before["node_s"]) / measured,
            "command_p99_ms": after["command_p99_ms"],
            "command_cores": thread / measured,
            "overruns": after["overruns"] - before["overruns"],
            "commands": after["commands"] - before["commands"],
            "expected": rate_hz * measured,
        }
        return figures, probe_output

    def _await(self, diagnostics, processes, reports):
        """Waits for this many reports."""
        seen, end = (
            diagnostics.arrivals,
            time.monotonic() + SILENT_S + reports * self.arguments.seconds,
        )
        while diagnostics.arrivals < seen + reports:
            self.executor.spin_once(timeout_sec=0.2)
            processes.check()
            if time.monotonic() > end:
                raise ProcessFailure("no diagnostics from the node")

    @staticmethod
    def _reading(process, diagnostics):
        status = diagnostics.streams.get("loop command", {})
        return {
            "node_s": process.cpu_s(),
            "threads": thread_times(process.pid),
            "command_p99_ms": number(status, "latency_p99_ms"),
            "overruns": number(status, "overruns"),
            "commands": number(status, "arm.commands"),
        }


def delay(rig):
    figures, output = rig.case("delay", DELAY_HZ, ["--joints", "14", "--commands", "/commands"])
    notes = dict(np.load(output))
    # The first chunk begins at the measured values, and the probe may end before the last ones are commands.
    notes = {name: column[1:-CHUNKS_AT_END] for name, column in notes.items()}
    known = notes["first_command_ns"] > 0
    # A chunk that became no command counts as one that never comes.
    wait_ms = np.where(known, notes["first_command_ns"] - notes["sent_ns"], np.inf) / 1e6
    heard_ms = (notes["heard_ns"] - notes["sent_ns"])[known] / 1e6
    return {
        **figures,
        "chunks": len(known),
        "chunks_without_command": int((~known).sum()),
        "to_instant_p99_ms": float(np.percentile(wait_ms, 99, method="higher")),
        "to_publish_p99_ms": float(np.percentile(wait_ms, 99, method="higher"))
        + figures["command_p99_ms"],
        "to_subscriber_p50_ms": float(np.percentile(heard_ms, 50)),
        "to_subscriber_p99_ms": float(np.percentile(heard_ms, 99, method="higher")),
    }


def rate(rig):
    return rig.case("rate", RATE_HZ, ["--joints", "14"])[0]


def targets(results):
    """(what, found, wanted, reached) for each target of the measured cases."""
    lines = []

    def at_most(what, found, wanted):
        lines.append((what, found, wanted, found <= wanted))

    if found := results.get("delay"):
        period_ms = 1e3 / DELAY_HZ
        at_most("chunk to its first command, p99 [ms]", found["to_publish_p99_ms"], period_ms + 0.3)
    if found := results.get("rate"):
        at_most("1,000 Hz: instant to return of publish, p99 [ms]", found["command_p99_ms"], 0.2)
        at_most("1,000 Hz: the command thread [cores]", found["command_cores"], 0.10)
    return lines


def show(results, facts):
    print(f"\n{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, {facts['commit']}\n")
    for name, figures in results.items():
        print(name)
        for key, value in figures.items():
            if isinstance(value, (int, float)):
                print(f"  {key:<24}{value:.3f}")
    print()
    for what, found, wanted, reached in targets(results):
        print(
            f"  {'reached' if reached else 'NOT REACHED':<12}{what}: {found:.3f} (target <= {wanted:g})"
        )


def main():
    arguments = parse_arguments()
    private_environment(free_domain())
    Path(arguments.output).mkdir(parents=True, exist_ok=True)
    facts, results = bench.machine(), {}
    rig = Rig(arguments)
    measures = {"delay": delay, "rate": rate}
    try:
        for name in arguments.only:
            print(f"{name} ...", flush=True)
            results[name] = measures[name](rig)
    except (ProcessFailure, OSError) as failure:
        print(f"commands: {failure}", file=sys.stderr)
        return 1
    finally:
        rig.close()
    show(results, facts)
    path = Path(arguments.output) / "commands.json"
    report = {"machine": facts, "cases": results, "targets": targets(results)}
    path.write_text(json.dumps(report, indent=2), encoding="utf-8")
    print(f"\nall figures: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
