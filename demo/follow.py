"""The part of the demo with the way back: a policy without ROS moves the second arm of the simulated robot along a path.

The policy (examples/act_without_ros.py) takes 80 to 250 ms for each answer. The node makes commands of its chunks, and the
arm follows them (`sensor_sim --follow`). `run` gives a section of the report with chunks, commands and measured positions,
and what was wrong.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from act_without_ros import path
from processes import Diagnostics, Processes, executable
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIG = REPOSITORY / "demo" / "commands.yaml"
#: The robot's other signals are off.
OTHERS = ("camera-front", "camera-wrist", "lidar", "joints", "wrench", "imu")
#: The policy must begin within this time [s], also on a busy machine.
START_S = 90.0
#: From standstill to the path [s]: limits lead there.
APPROACH_S = 3.0
#: The curves of the report are of this time [ns].
SHOWN_NS = 4_000_000_000
SHOWN_JOINTS = (0, 13)
#: The arm must be so near to the path in half of the time [rad]. Within its limits it is 50 ms behind its commands, and
#: `lead_ms` is 50. If the machine is so busy that the plan stalls or command ticks are missed, the arm leaves the path, and
#: nothing is expected.
MOST_RAD = 0.01


class Follower:
    """Notes commands and measured positions: the time of each [ns] and a number per joint."""

    def __init__(self, node):
        self.commands, self.measured = [], []
        qos = QoSProfile(depth=500, reliability=ReliabilityPolicy.RELIABLE)
        self._node = node
        self._subscriptions = [
            node.create_subscription(Float64MultiArray, "/follower/commands", self._command, qos),
            node.create_subscription(JointState, "/follower/joint_states", self._joints, qos),
        ]

    def destroy(self):
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)

    def _command(self, message):
        # The message has no stamp.
        self.commands.append((time.time_ns(), np.array(message.data)))

    def _joints(self, message):
        stamp = message.header.stamp
        ns = stamp.sec * 1_000_000_000 + stamp.nanosec
        self.measured.append((ns, np.array(message.position)))


def run(seconds, output, node, executor):
    """Runs robot, node and policy for this time. Returns the section of the report, and its problems."""
    service = f"robocache_demo/{os.getpid()}/follow"
    notes_file = output / "follow.json"
    notes_file.unlink(missing_ok=True)
    robot = [executable("sensor_sim"), "--follow"]
    robot += [word for name in OTHERS for word in (f"--{name}-hz", "0")]
    parameters = {"config_file": CONFIG, "shared_output": service, "commands": "enabled"}
    given = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    policy = [sys.executable, REPOSITORY / "examples" / "act_without_ros.py", service]
    policy += ["--group", "follower", "--stream", "follower", "--notes", notes_file]
    follower, diagnostics = Follower(node), Diagnostics(node)
    processes = Processes(output)

    def spin(enough, most_s):
        end = time.monotonic() + most_s
        while time.monotonic() < end and not enough():
            executor.spin_once(timeout_sec=0.1)
            processes.check()

    with processes:
        processes.start("follow.sensor_sim", robot)
        processes.start("follow.fusion_node", [executable("fusion_node"), "--ros-args", *given])
        processes.start("follow.policy", policy)
        spin(lambda: follower.commands, START_S)
        spin(lambda: False, APPROACH_S + seconds)
        # What the ends of the processes do to the arm is not shown.
        diagnostics.destroy()
        follower.destroy()
    problems = [f"commands: {problem}" for problem in processes.problems]
    if not follower.commands or not follower.measured or not notes_file.exists():
        return None, [*problems, "commands: the policy moved nothing"]
    notes = json.loads(notes_file.read_text(encoding="utf-8"))
    return section(follower, notes, diagnostics.streams.get("loop command", {}), problems)


def section(follower, notes, node, problems):
    """The section of the report, and the problems with those of the way back."""
    joints = len(notes["joints"])
    begin = follower.commands[0][0] + int(APPROACH_S * 1e9)
    stamps = np.array([ns for ns, _ in follower.measured])
    positions = np.stack([row for _, row in follower.measured])
    on_path = stamps >= begin
    away = np.abs(positions - path(stamps, joints))[on_path].max(axis=1)
    usual, worst = np.percentile(away, [50, 100]) if away.size else (np.inf, np.inf)
    is_busy = any(float(node.get(key, 0)) for key in ("follower.stalls", "overruns"))
    if not usual <= MOST_RAD and not (is_busy and away.size):
        problems.append(
            f"commands: in half of the time the arm was {usual:.3f} rad or more away from its path, expected {MOST_RAD}"
        )
    counted = int(node.get("follower.chunks", 0))
    if not counted:
        problems.append("commands: no chunk counted")
    text = (
        f"The policy took 80 to 250 ms for each of its {len(notes['sent'])} chunks, and knows nothing of that time: each row "
        f"is for an instant. {counted} chunks counted, and {node.get('follower.rows_late', '?')} rows were past when they came. "
        f"From {APPROACH_S:g} s after the first command on, the joint that was farthest from its path was {1e3 * usual:.1f} mrad away "
        f"(median), and {1e3 * worst:.1f} at most; {node.get('follower.stalls', '?')} stalls. "
        f"{len(follower.commands)} commands, {node.get('latency_p99_ms', '?')} ms after their instants (p99)."
    )
    blocks = [{"text": text}, *(curves(follower, notes, joint) for joint in SHOWN_JOINTS)]
    return {"title": "The way back", "blocks": blocks}, problems


def curves(follower, notes, joint):
    """Path, chunks, commands and measured positions of one joint at the end of the run."""
    end = follower.measured[-1][0]
    begin = end - SHOWN_NS
    joints = len(notes["joints"])

    def points(pairs, thin=1):
        shown = [[(ns - begin) / 1e9, float(value)] for ns, value in pairs if begin <= ns <= end]
        return shown[::thin]

    rows = []
    for _, stamp_ns in notes["sent"][::3]:
        at = stamp_ns + notes["step_ns"] * np.arange(notes["rows"])
        rows += zip(at.tolist(), path(at, joints)[:, joint])
    commands = [(ns, row[joint]) for ns, row in follower.commands]
    measured = [(ns, row[joint]) for ns, row in follower.measured]
    return {
        "plot": {
            "title": f"{notes['joints'][joint]}: chunks, commands and measured positions",
            "x": "time [s]",
            "y": f"{notes['joints'][joint]} [rad]",
            "caption": "Dots: rows of every third chunk at their instants. A command is the plan 50 ms later (lead_ms), for the "
            "arm's delay; it has no stamp, and is drawn when it came",
            "curves": [
                {"name": "rows of chunks", "points": points(sorted(rows)), "dots": True},
                {"name": "commands", "points": points(commands, 4)},
                {"name": "measured", "points": points(measured, 8)},
            ],
        }
    }
