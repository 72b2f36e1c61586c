"""The demo: a synthetic robot, the fusion node and a policy, with a live table and a report.

    python3 demo/demo.py [--seconds 15] [--config config/robocache.yaml] [--output demo]

`make demo` builds first and calls this with ROS sourced. The exit code is 0 only if:

- each tick of the measured window arrived, or was counted: as overrun by the node, or as lost by a full queue here,
- each step was valid if its row was new enough, and only then, and each stream was valid at some tick, unless the
  machine was too slow for its images or clouds, and the node counted that,
- what a camera and a joint see of one object, each at its instant, is the truth (one_instant.py),
- a policy without ROS moved an arm along its path by chunks of actions (follow.py),
- and all processes ended with exit code 0.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / part) for part in ("scripts", "python", "examples")]

import configuration  # noqa: E402
import live_table  # noqa: E402
import report  # noqa: E402
from domains import free_domain  # noqa: E402
from processes import (  # noqa: E402
    Processes,
    ProcessFailure,
    executable,
    number,
    private_environment,
)

#: The first tensor must arrive within this time [s], also on a busy machine.
START_TIMEOUT_S = 90.0
#: Subscriptions to the tensor: of the demo, and of the policy by rclpy.
SUBSCRIBERS = 2
#: Time from the first tensor to the measured window, for discovery and warm-up [s].
GRACE_S = 2.0
#: The node must tell its counts within this time [s].
COUNTED_TIMEOUT_S = 90.0
#: What the node counts of ticks whose tensor it did not publish.
NOT_PUBLISHED = ("overruns", "held_back", "unsent", "publish_failed")
#: Length of the report's joint curves [s].
JOINT_WINDOW_S = 3.0
JOINTS_SHOWN = 3
#: The stream whose camera has a driver of its own, and ends before the others; its topic has the same name.
ENDING = "camera_wrist"
#: Time that the demo goes on without this camera [s].
WITHOUT_S = 1.8
#: Time in which the policy moves the arm [s].
FOLLOW_S = 8.0


class Interrupted(Exception):
    """The user has interrupted the demo."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="measured time [s] (15)")
    parser.add_argument(
        "--config",
        default=str(REPOSITORY / "config" / "robocache.yaml"),
        help="configuration of the node (config/robocache.yaml)",
    )
    parser.add_argument(
        "--output", default=str(REPOSITORY / "demo"), help="folder of report and logs (demo)"
    )
    # The demo has its own domain, so that its messages never reach a robot.
    parser.add_argument("--domain-id", type=int, help="ROS_DOMAIN_ID; default: a free one")
    arguments = parser.parse_args()
    if arguments.seconds < 4:
        parser.error("--seconds: expected at least 4, for the joint curves and the rates")
    return arguments


def start_all(processes, config_path, config):
    """Starts all processes. Returns the driver of the wrist camera and the policy without ROS."""
    robot = executable("sensor_sim")
    processes.start("sensor_sim", [robot, "--camera-wrist-hz", "0"])
    others = ("camera-front", "lidar", "joints", "wrench", "imu")
    alone = [word for name in others for word in (f"--{name}-hz", "0")]
    wrist = processes.start(ENDING, [robot, *alone])
    # Shared memory is the whole machine's.
    service = f"robocache_demo/{os.getpid()}"
    parameters = {"config_file": config_path, "shared_output": service}
    given = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    processes.start("fusion_node", [executable("fusion_node"), "--ros-args", *given])
    examples = REPOSITORY / "examples"
    inputs = policy_inputs(config)
    policy = [sys.executable, examples / "policy_node.py", "--ros-args"]
    policy += ["-r", f"fused_tensor:={config.output_topic}", "-p", f"inputs:=[{', '.join(inputs)}]"]
    processes.start("policy", policy)
    policy = [sys.executable, examples / "policy_without_ros.py", service, "--inputs", *inputs]
    return wrist, processes.start("policy_without_ros", policy)


def policy_inputs(config):
    """The inputs of the example policies for this configuration: its joints and another vector.

    If there are no joint positions to command, the policy by rclpy refuses every tensor and says so.
    """
    vectors = [stream for stream in config.streams if stream.kind == "vector"]
    vectors.sort(key=lambda stream: not stream.joints)
    first = (vectors or config.streams)[0]
    return [stream.name for stream in vectors[:2] or [first]]


class Demo:
    """Spins the recorder on this thread, redraws the table, and checks the processes."""

    def __init__(self, config, processes, executor, recorder):
        self.config = config
        self.processes = processes
        self.executor = executor
        self.recorder = recorder
        self.table = live_table.Table(config)

    def spin_until(self, done, timeout_s=None):
        """Runs callbacks until `done()` and draws the table each second. False at the time-out."""
        started = time.monotonic()
        next_look = started + 1.0
        while not done():
            self.executor.spin_once(timeout_sec=0.1)
            now = time.monotonic()
            if timeout_s is not None and now > started + timeout_s:
                return False
            if now >= next_look:
                next_look = now + 1.0
                self.processes.check()
                self.table.show(self.recorder)
        return True

    def spin_for(self, seconds):
        end = time.monotonic() + seconds
        self.spin_until(lambda: time.monotonic() >= end)

    def end_camera(self, driver):
        """Ends the driver of a camera and goes on without it. Returns a section of the report, or None without such a stream."""
        if all(stream.name != ENDING for stream in self.config.streams):
            return None
        print(f"\nThe driver of {ENDING} ends, and the tensors go on ...")
        self.processes.let_end(driver)
        ended_ns = time.time_ns()
        self.spin_for(WITHOUT_S)
        self.processes.end(driver)
        return report.ending(self.config, self.recorder, ended_ns, ENDING)

    def run(self, seconds):
        """Runs the demo. Returns the measured window (start_ns, end_ns) in Unix time."""
        if not self.spin_until(lambda: self.recorder.arrivals, START_TIMEOUT_S):
            raise ProcessFailure(
                f"no tensor on {self.config.output_topic} within {START_TIMEOUT_S:.0f} s\n"
                + "\n".join(process.tail() for process in self.processes.running)
            )
        # On a busy machine, Python takes long to begin.
        self.spin_until(lambda: self.recorder.subscriptions() >= SUBSCRIBERS, START_TIMEOUT_S)
        self.spin_for(GRACE_S)
        start_ns = time.time_ns()
        joints = next((s for s in self.config.streams if s.joints), None)
        before = max(0.0, seconds - JOINT_WINDOW_S - 1.0)
        self.spin_for(before)
        if joints is not None:
            self.recorder.watch_joints(joints.topics, joints.joints[:JOINTS_SHOWN])
        self.spin_for(seconds - before)
        end_ns = time.time_ns()
        self.recorder.stop_watching_joints()
        # The second message from now on counts all that became of the last ticks of the window.
        counted = self.recorder.diagnostics.arrivals + 2
        self.spin_until(lambda: self.recorder.diagnostics.arrivals >= counted, COUNTED_TIMEOUT_S)
        return start_ns, end_ns


def verdict(config, recorder, window):
    """Returns (ticks received, ticks expected, problems of the tensors)."""
    start_ns, end_ns = window
    received = recorder.ticks_between(start_ns, end_ns)
    period = config.period_ns
    expected = (end_ns - 1) // period - (start_ns - 1) // period  # grid points in [start, end)
    problems = []
    counted = sum(number(recorder.diagnostics.tick, key) or 0 for key in NOT_PUBLISHED)
    lost = recorder.lost_here(period)
    if not received or received + counted + lost < expected:
        problems.append(
            f"fused tensors did not arrive at the configured {config.rate_hz:g} Hz: {received} of {expected} ticks came, the "
            f"node counted {counted:.0f} that it did not publish, and {lost} were lost by a full queue here"
        )
    for stream in config.streams:
        valid, steps, wrong = recorder.steps_between(stream.name, start_ns, end_ns)
        # If the machine is too slow for the images or clouds, the node drops them, and counts that.
        node = recorder.diagnostics.streams.get(stream.name, {})
        if not valid and not (steps and number(node, "dropped.overload")):
            problems.append(f"{stream.name}: none of its {steps} steps was valid")
        if wrong:
            problems.append(
                f"{stream.name}: {wrong} of {steps} steps are flagged against their age, expected "
                f"valid ones up to {stream.max_age_ns / 1e6:g} ms"
            )
    return received, expected, problems


def run_demo(arguments):
    """Runs the demo and returns its problems."""
    import follow
    import one_instant
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions
    from recorder import Recorder

    from robocache.ros import keep_large_buffers

    keep_large_buffers()
    config = configuration.load(arguments.config)
    output = Path(arguments.output)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("demo")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    recorder = Recorder(node, config)
    processes = Processes(output)
    try:
        with processes:
            wrist, without_ros = start_all(processes, arguments.config, config)
            demo = Demo(config, processes, executor, recorder)
            window = demo.run(arguments.seconds)
            stops = demo.end_camera(wrist)
        received, expected, problems = verdict(config, recorder, window)
        problems += processes.problems
        # From now on other nodes tell theirs.
        recorder.diagnostics.destroy()
        print(f"\nA policy moves an arm for {FOLLOW_S:g} s by chunks of actions ...")
        with one_instant.OneInstant(node, output) as seen_twice:
            way_back, wrong = follow.run(FOLLOW_S, output, node, executor)
            seen_twice.wait(executor)
        instant, wrong_too = seen_twice.section()
        problems += [*wrong, *wrong_too]
        seen = output / "report.json"
        counts = (received, expected)
        more = [section for section in (instant, stops, way_back) if section]
        report.write(seen, config, recorder, (window, counts), problems, more)
        page = output / "report.html"
        print(f"\n{received} of {expected} ticks arrived")
        print(f"policy without ROS: {without_ros.log.read_text().splitlines()[-1]}")
        problems += make_report(seen, page)
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown()
    return problems


def make_report(seen, page):
    """Lets `robocache view` make the report. Returns its problem, if there is one."""
    command = [configuration.program(), "view", str(seen), "--out", str(page)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return [f"robocache view: exit code {done.returncode}: {done.stderr.strip()}"]
    print(done.stderr.strip())
    return []


def main():
    arguments = parse_arguments()
    given = arguments.domain_id
    private_environment(free_domain() if given is None else given)

    def interrupt(*_):
        raise Interrupted

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        problems = run_demo(arguments)
    except Interrupted:
        problems = ["interrupted"]
    except (configuration.ConfigurationError, ProcessFailure, OSError) as failure:
        problems = [str(failure)]
    for problem in problems:
        print(f"demo: {problem}", file=sys.stderr)
    if problems:
        print(f"demo: failed; the logs are {arguments.output}/*.log", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
