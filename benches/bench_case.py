"""One case of the benchmark: robot, node under test and policy, measured over several windows.

A window is one period of the node's diagnostics. So the latencies that the node reports and the CPU
times from /proc cover the same time.
"""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from processes import Diagnostics, Processes, ProcessFailure, number

#: Time from the start to the first window, for discovery and warm-up [s].
WARM_UP_S = 8.0
#: If the node reports nothing for this many periods, it has failed.
SILENT_PERIODS = 3


@dataclass
class Window:
    """The readings at the end of a window."""

    at_ns: int
    cpu_s: dict  # process name to user + system time so far
    machine_busy_s: float  # of all cores and all processes so far
    tick: dict  # the node's tick status


@dataclass
class Case:
    """One case. `commands` start the robot, the node, the policy and the stall probe."""

    name: str
    title: str
    rate_hz: float
    lags_ns: dict  # stream name to its lag
    commands: dict
    probe_output: Path
    stalls_output: Path
    windows: list = field(default_factory=list)
    memory_mb: dict = field(default_factory=dict)


def machine_busy_s():
    """Busy time of all cores so far [s] (proc(5): all states except idle and iowait)."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(value) for value in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / 100


def run(case, count, period_s, log_dir, ros_node, executor):
    """Measures `count` windows of `case`. Raises ProcessFailure if a process ends early."""
    processes = Processes(log_dir)
    case.probe_output.unlink(missing_ok=True)
    case.stalls_output.unlink(missing_ok=True)
    diagnostics = Diagnostics(ros_node)
    with processes:
        running = {
            name: processes.start(f"{case.name}.{name}", command)
            for name, command in case.commands.items()
        }
        warm_from = time.monotonic() + WARM_UP_S
        while len(case.windows) <= count:
            await_diagnostics(diagnostics, period_s, processes, executor)
            if time.monotonic() >= warm_from and diagnostics.tick:
                cpu_s = {name: process.cpu_s() for name, process in running.items()}
                entry = Window(time.time_ns(), cpu_s, machine_busy_s(), diagnostics.tick)
                case.windows.append(entry)
        case.memory_mb = {name: process.peak_memory_mb() for name, process in running.items()}
    diagnostics.destroy()
    if processes.problems:
        raise ProcessFailure("\n".join(processes.problems))
    for output in (case.probe_output, case.stalls_output):
        if not output.exists():
            raise ProcessFailure(f"expected {output} of a process that ended, found no such file")


def await_diagnostics(diagnostics, period_s, processes, executor):
    """Waits for the node's next report."""
    seen = diagnostics.arrivals
    deadline = time.monotonic() + SILENT_PERIODS * period_s + WARM_UP_S
    while diagnostics.arrivals == seen:
        executor.spin_once(timeout_sec=0.2)
        processes.check()
        if time.monotonic() > deadline:
            tails = "\n".join(process.tail() for process in processes.running)
            raise ProcessFailure(f"no diagnostics from the node under test\n{tails}")


def summarize(case):
    """The figures of a measured case, for the JSON file."""
    probe = dict(np.load(case.probe_output))
    windows = [window_figures(*pair, probe) for pair in zip(case.windows, case.windows[1:])]
    first, last = case.windows[0], case.windows[-1]
    seconds = (last.at_ns - first.at_ns) / 1e9
    inside = (probe["stamp_ns"] >= first.at_ns) & (probe["stamp_ns"] < last.at_ns)
    delivered = len(np.unique(probe["tick"][inside]))
    overruns = number(last.tick, "overruns") - number(first.tick, "overruns")
    priority = number(last.tick, "realtime_priority")
    return {
        "title": case.title,
        "rate_hz": case.rate_hz,
        "seconds": seconds,
        "tick_latency_ms": {
            "p50": median(windows, "latency_p50_ms"),
            "p99": median(windows, "latency_p99_ms"),
            "p99_whole_run": number(last.tick, "total_latency_p99_ms"),
            "p99_worst_window": max(window["latency_p99_ms"] for window in windows),
            "max": max(window["latency_max_ms"] for window in windows),
        },
        "tick_to_policy_ms": quantiles((probe["arrival_ns"] - probe["stamp_ns"])[inside]),
        "sensor_to_policy_ms": sensor_to_policy_ms(probe, inside, case.lags_ns),
        "ticks_delivered": delivered,
        "ticks_delivered_share": delivered / (seconds * case.rate_hz),
        "overruns": int(overruns),
        "machine_overruns": machine_overruns(case.stalls_output, first.at_ns, last.at_ns),
        "realtime_priority": None if priority is None else int(priority),
        "held_back": int(number(last.tick, "held_back") - number(first.tick, "held_back")),
        "cpu_s_per_s": {name: median(windows, f"cpu.{name}") for name in last.cpu_s},
        "cpu_ms_per_tick": median(windows, "cpu_ms_per_tick"),
        "cpu_s_per_s_of_others": median(windows, "cpu_of_others"),
        "peak_memory_mb": case.memory_mb,
        "backend": last.tick.get("backend"),
        "windows": windows,
    }


def machine_overruns(path, start_ns, end_ns):
    """The instants that the stall probe's real-time thread missed between the two times.

    None if real-time priority was not permitted: then the count says nothing about the machine.
    """
    probe = json.loads(path.read_text(encoding="utf-8"))
    if not probe["real_time"]:
        return None
    return sum(missed for at_ns, missed in probe["stalls"] if start_ns <= at_ns < end_ns)


def window_figures(start, end, probe):
    """Latencies and CPU shares of the window between two readings."""
    seconds = (end.at_ns - start.at_ns) / 1e9
    inside = (probe["stamp_ns"] >= start.at_ns) & (probe["stamp_ns"] < end.at_ns)
    delivered = len(np.unique(probe["tick"][inside]))
    cpu = {name: (end.cpu_s[name] - start.cpu_s[name]) / seconds for name in end.cpu_s}
    busy = (end.machine_busy_s - start.machine_busy_s) / seconds
    figures = {
        key: number(end.tick, key) for key in ("latency_p50_ms", "latency_p99_ms", "latency_max_ms")
    }
    missing = [key for key, value in figures.items() if value is None]
    if missing:
        raise ProcessFailure(f"expected {', '.join(missing)} in the node's diagnostics")
    return {
        **figures,
        **{f"cpu.{name}": share for name, share in cpu.items()},
        "cpu_of_others": max(0.0, busy - sum(cpu.values())),
        "cpu_ms_per_tick": 1e3 * cpu["node"] * seconds / max(delivered, 1),
        "ticks_delivered": delivered,
        "overruns": int(number(end.tick, "overruns") - number(start.tick, "overruns")),
    }


def median(windows, key):
    return float(np.median([window[key] for window in windows]))


def quantiles(nanoseconds):
    if not len(nanoseconds):
        return {"p50": None, "p99": None, "max": None}
    p50, p99, most = np.percentile(nanoseconds, [50, 99, 100]) / 1e6
    return {"p50": float(p50), "p99": float(p99), "max": float(most)}


def sensor_to_policy_ms(probe, inside, lags_ns):
    """For each stream, the time from a row's stamp to the callback of its first tensor.

    The stamp of the newest row in a tensor's newest step is tick - lag - age.
    """
    latencies = {}
    for name in (key.partition(".")[2] for key in probe if key.startswith("age_ns.")):
        known = inside & probe[f"valid.{name}"]
        row_ns = (probe["stamp_ns"] - lags_ns[name] - probe[f"age_ns.{name}"])[known]
        arrival_ns = probe["arrival_ns"][known]
        new = np.diff(row_ns) > 0  # the first entry may have been in an earlier tensor
        latencies[name] = quantiles((arrival_ns - row_ns)[1:][new])
    return latencies
