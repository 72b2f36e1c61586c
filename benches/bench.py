"""The benchmark: compares fusion_node with the node that a user would write today.

    python3 benches/bench.py [--seconds 60] [--only node,shared,plain,peer,1khz,shared-1khz]

Each case runs the simulated robot, the node under test and the same policy process on this
machine. The cases run one after the other, with the same options. The benchmark prints a table and
the targets, and writes bench/bench.json. `make bench` builds first and calls this with ROS sourced.

The latency of a tick is the time from its instant to the return of publish. A tick that was missed
(an overrun) or held back has no latency, so overruns are printed beside the percentiles.

A figure is the median of several windows, so that a short disturbance does not change it. Maxima
and counts are of all windows. p99 is also printed for the worst window and for the whole run with
its warm-up. The limits of p99 apply to the worst window. The comparison with the peer uses the p99
of the whole runs.

`plain` is this node at ordinary priority, which the peer also has. Both are compared with the peer.
Beside each case runs a real-time thread that only sleeps (stall_probe.py): the instants that it
misses show how often the machine stalls. The node may miss others, so the two counts are shown
side by side and not subtracted. If real-time priority is not permitted, the row says n/a.

The exit code is 0 if all cases were measured, even if a target was not reached.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "scripts"), str(REPOSITORY / "python")]

import bench_case  # noqa: E402
import configuration  # noqa: E402
from domains import free_domain  # noqa: E402
from processes import ProcessFailure, executable, private_environment  # noqa: E402

REFERENCE = REPOSITORY / "config" / "robocache.yaml"
JOINTS_1KHZ = REPOSITORY / "config" / "joints_1khz.yaml"
CASES = ("node", "shared", "plain", "peer", "1khz", "shared-1khz")
#: In the 1,000 Hz case the robot has only joints and a wrench.
SIM_JOINTS_ALONE = [
    option
    for name in ("camera-front", "camera-wrist", "lidar", "imu")
    for option in (f"--{name}-hz", "0")
]


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="per case [s] (60)")
    parser.add_argument("--windows", type=int, default=6, help="windows per case (6)")
    parser.add_argument("--only", default=",".join(CASES), help="cases (all)")
    parser.add_argument(
        "--peer-executor", default="thread", choices=["single", "multi", "thread"],
        help="how the peer ticks (thread: the fastest of the three)",
    )  # fmt: skip
    parser.add_argument("--output", default=str(REPOSITORY / "bench"), help="folder (bench)")
    parser.add_argument("--domain-id", type=int, help="ROS_DOMAIN_ID; default: a free one")
    arguments = parser.parse_args(argv)
    if arguments.seconds < arguments.windows or arguments.windows < 1:
        parser.error("expected at least one window, of at least a second")
    arguments.only = arguments.only.split(",")
    unknown = sorted(set(arguments.only) - set(CASES))
    if unknown:
        parser.error(f"--only: expected some of {', '.join(CASES)}, found {', '.join(unknown)}")
    return arguments


def make_case(name, arguments, period_s):
    config_path = JOINTS_1KHZ if name.endswith("1khz") else REFERENCE
    config = configuration.load(config_path)
    ros = ["--ros-args", "-p", f"config_file:={config_path}"]
    ros += ["-p", f"diagnostics_period_s:={period_s:.3f}"]
    if name == "peer":
        peer = REPOSITORY / "benches" / "peers" / "rclpy_node.py"
        node = [sys.executable, peer, *ros, "-p", f"executor:={arguments.peer_executor}"]
    else:
        node = [executable("fusion_node"), *ros]
        node += ["-p", "realtime_priority:=0"] if name == "plain" else []
    # Shared memory is the whole machine's.
    service = f"robocache_bench/{os.getpid()}/{name}"
    if name.startswith("shared"):
        node += ["-p", f"shared_output:={service}"]
    probe_output = Path(arguments.output).resolve() / f"{name}.npz"
    probe = [sys.executable, REPOSITORY / "benches" / "policy_probe.py", probe_output]
    sim = [executable("sensor_sim"), *(SIM_JOINTS_ALONE if name.endswith("1khz") else [])]
    titles = {
        "node": f"fusion_node at {config.rate_hz:g} Hz",
        "shared": "the same, policy by shared memory",
        "plain": "the same, ordinary priority",
        "peer": f"rclpy peer at {config.rate_hz:g} Hz",
        "1khz": f"fusion_node at {config.rate_hz:g} Hz, joints and wrench",
        "shared-1khz": "the same, policy by shared memory",
    }
    stalls_output = probe_output.with_suffix(".stalls.json")
    stalls = [sys.executable, REPOSITORY / "benches" / "stall_probe.py", stalls_output]
    policy = ["--topic", config.output_topic]
    if name.startswith("shared"):
        policy = ["--shared", service]
    commands = {
        "sim": sim,
        "node": node,
        "policy": [*probe, *policy],
        "stalls": [*stalls, "--period-ns", str(config.period_ns)],
    }
    lags_ns = {stream.name: stream.lag_ns for stream in config.streams}
    return bench_case.Case(
        name, titles[name], config.rate_hz, lags_ns, commands, probe_output, stalls_output
    )


def measure(arguments):
    """Measures the cases. Returns case name to figures."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor

    period_s = arguments.seconds / arguments.windows
    rclpy.init()
    ros_node = rclpy.create_node("bench")
    executor = SingleThreadedExecutor()
    executor.add_node(ros_node)
    results = {}
    try:
        for name in arguments.only:
            case = make_case(name, arguments, period_s)
            print(f"{case.title}: {arguments.seconds:g} s after a warm-up ...", flush=True)
            bench_case.run(case, arguments.windows, period_s, arguments.output, ros_node, executor)
            results[name] = bench_case.summarize(case)
    finally:
        executor.shutdown()
        ros_node.destroy_node()
        rclpy.try_shutdown()
    return results


def targets(results):
    """(what, found, relation, wanted, reached) for each target of the measured cases."""
    lines = []

    def at_most(what, found, wanted):
        lines.append((what, found, "<=", wanted, found <= wanted))

    def at_least(what, found, wanted):
        lines.append((what, found, ">=", wanted, found >= wanted))

    node, fast = results.get("node"), results.get("1khz")
    if node:
        at_most("overruns", node["overruns"], 0)
        at_most("tick latency p50 [ms]", node["tick_latency_ms"]["p50"], 1.5)
        at_most("tick latency p99, worst window [ms]", p99_ms(node), 4.0)
        at_most("fusion_node CPU [s/s]", node["cpu_s_per_s"]["node"], 0.45)
    # As shipped, and at ordinary priority, as the peer is.
    for case, words, p99 in (("node", "as shipped", 7.0), ("plain", "ordinary priority", 5.0)):
        if ratio := ratios(results).get(case):
            at_least(f"CPU per tick, peer / {words}", ratio["cpu_ms_per_tick"], 7.0)
            at_least(f"tick latency p99, peer / {words}", ratio["tick_latency_p99_whole_run"], p99)
    shared, shared_fast = results.get("shared"), results.get("shared-1khz")
    if shared:
        to_policy = shared["tick_to_policy_ms"]
        at_most("shared memory: tick to policy p50 [ms]", to_policy["p50"], 0.7)
        at_most("shared memory: tick to policy p99 [ms]", to_policy["p99"], 2.5)
    if shared and node:
        for key in ("p50", "p99"):
            ratio = shared["tick_to_policy_ms"][key] / node["tick_to_policy_ms"][key]
            at_most(f"shared memory / topic: tick to policy {key}", ratio, 0.5)
        ratio = with_policy_ms(shared) / with_policy_ms(node)
        at_most("shared memory / topic: CPU of node and policy per tick", ratio, 0.67)
    if shared_fast:
        beyond = shared_fast["tick_to_policy_ms"]["p99"] - shared_fast["tick_latency_ms"]["p99"]
        at_most("1,000 Hz, shared memory: p99 to policy beyond the node's [ms]", beyond, 0.3)
    if fast:
        at_most("1,000 Hz: overruns", fast["overruns"], 0)
        at_most("1,000 Hz: tick latency p99, worst window [ms]", p99_ms(fast), 0.35)
    return lines


def p99_ms(case):
    return case["tick_latency_ms"]["p99_worst_window"]


def ratios(results):
    """The peer's figures divided by those of `node` and `plain`; greater favours this node."""
    peer = results.get("peer")
    names = [name for name in ("node", "plain") if peer and name in results]
    return {name: peer_over(peer, results[name]) for name in names}


def peer_over(peer, ours):
    latencies = {
        f"tick_latency_{key}": peer["tick_latency_ms"][key] / ours["tick_latency_ms"][key]
        for key in ("p50", "p99", "p99_whole_run", "p99_worst_window")
    }
    return {
        "cpu_ms_per_tick": peer["cpu_ms_per_tick"] / max(ours["cpu_ms_per_tick"], 1e-9),
        **latencies,
        "peak_memory": peer["peak_memory_mb"]["node"] / ours["peak_memory_mb"]["node"],
    }


def rows(results):
    """The rows of the printed table: a name, and one text for each case."""
    cases = list(results.values())

    def row(name, pick, spec="{:.2f}"):
        return [name, *(spec.format(pick(case)) for case in cases)]

    table = [["", *(case["title"] for case in cases)]]
    for key in ("p50", "p99", "p99_whole_run", "p99_worst_window", "max"):
        name = f"tick latency {key.replace('_', ' ')} [ms]"
        table.append(row(name, lambda case, key=key: case["tick_latency_ms"][key]))
    table += [
        row("tick to policy p50 [ms]", lambda case: case["tick_to_policy_ms"]["p50"]),
        row("tick to policy p99 [ms]", lambda case: case["tick_to_policy_ms"]["p99"]),
        row("ticks delivered", lambda case: case["ticks_delivered"], "{}"),
        row("  of those scheduled [%]", lambda case: 100 * case["ticks_delivered_share"], "{:.1f}"),
        row("overruns", lambda case: case["overruns"], "{}"),
        row("missed by a bare thread", bare_thread, "{}"),
        row("real-time priority of the ticks", priority, "{}"),
        row("CPU of the node [s/s]", lambda case: case["cpu_s_per_s"]["node"], "{:.3f}"),
        row("CPU of the robot [s/s]", lambda case: case["cpu_s_per_s"]["sim"], "{:.3f}"),
        row("CPU of the policy [s/s]", lambda case: case["cpu_s_per_s"]["policy"], "{:.3f}"),
        row("CPU of others [s/s]", lambda case: case["cpu_s_per_s_of_others"], "{:.3f}"),
        row("CPU per tick delivered [ms]", lambda case: case["cpu_ms_per_tick"]),
        row("  with the policy [ms]", with_policy_ms),
        row("peak memory of the node [MB]", lambda case: case["peak_memory_mb"]["node"], "{:.0f}"),
    ]
    streams = dict.fromkeys(name for case in cases for name in case["sensor_to_policy_ms"])
    for stream in streams:
        cells = [case["sensor_to_policy_ms"].get(stream, {}) for case in cases]
        texts = [
            f"{cell['p50']:.1f} / {cell['p99']:.1f}" if cell.get("p50") is not None else "-"
            for cell in cells
        ]
        table.append([f"sensor to policy, {stream}, p50 / p99 [ms]", *texts])
    return table


def with_policy_ms(case):
    """Processor time of node and policy per tick delivered [ms]."""
    cpu = case["cpu_s_per_s"]
    return 1e3 * (cpu["node"] + cpu["policy"]) * case["seconds"] / max(case["ticks_delivered"], 1)


def bare_thread(case):
    missed = case["machine_overruns"]
    return "n/a" if missed is None else missed


def priority(case):
    """The priority that the node reports, as text; 0 is ordinary."""
    value = case["realtime_priority"]
    return "unknown" if value is None else value or "none"


def machine():
    """The machine on which the figures were measured."""
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    try:
        git = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"]
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": commit,
        "load_average_before": os.getloadavg(),
    }


def show(results, facts):
    print(f"\n{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, {facts['commit']}\n")
    table = rows(results)
    widths = [max(len(line[at]) for line in table) for at in range(len(table[0]))]
    for line in table:
        cells = [f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:])]
        print(f"{line[0]:<{widths[0]}}  " + "  ".join(cells))
    print()
    for name, ratio in ratios(results).items():
        texts = [f"{key.replace('_', ' ')} {value:.1f}" for key, value in ratio.items()]
        print(f"  peer / {results[name]['title']}: {', '.join(texts)}")
    if any(case["machine_overruns"] is None for case in results.values()):
        print("  real-time priority is not permitted here: the machine's stalls are unknown")
    print()
    for what, found, relation, wanted, reached in targets(results):
        verdict = "reached" if reached else "NOT REACHED"
        print(f"  {verdict:<12}{what}: {found:.2f} (target {relation} {wanted:g})")


def main():
    arguments = parse_arguments()
    given = arguments.domain_id
    private_environment(free_domain() if given is None else given)
    Path(arguments.output).mkdir(parents=True, exist_ok=True)
    facts = machine()
    try:
        results = measure(arguments)
    except (configuration.ConfigurationError, ProcessFailure, OSError) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 1
    show(results, facts)
    verdicts = [
        {"what": what, "found": found, "relation": relation, "wanted": wanted, "reached": reached}
        for what, found, relation, wanted, reached in targets(results)
    ]
    report = {"machine": facts, "cases": results, "ratios": ratios(results), "targets": verdicts}
    path = Path(arguments.output) / "bench.json"
    path.write_text(json.dumps(report, indent=2), encoding="utf-8")
    print(f"\nall figures: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
