"""The part of the demo that shows what the project is for: an object that a camera and a joint see at one instant.

A node fuses both (swing.yaml). At each of its ticks, the section of the report has the angle by the picture minus that by the
joint, once in the tensor, and once of the newest messages that have come.
"""

import sys
import time
from pathlib import Path

import numpy as np
import swing
from processes import Processes, executable
from sensor_msgs.msg import Image, JointState

from robocache.ros import TensorSubscriber

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIG = REPOSITORY / "demo" / "swing.yaml"
#: The node's namespace, so that nothing of it is taken for what others publish.
NAMESPACE = "/object"
#: A valid value may differ so much from the truth at its own instant [rad]: by a quarter of a column of the row, and by the
#: line between two messages of the joint 50 ms apart.
MOST_RAD = 0.01
#: So many tensors with both are enough, and come within this time [s], also on a busy machine.
ENOUGH, WAIT_S = 100, 90.0
#: The curves of the report are of this time [ns].
SHOWN_NS = 3_000_000_000


class OneInstant:
    """Runs the object and its node within a `with` block, while others spin the executor.

    Attributes:
        ticks: of each tensor in which both are valid, the stamp, and per stream the pair of its value and its instant. A
            picture's instant is that of its exposure.
        newest: of each tensor that came while both had come, its stamp, and the angle by the newest picture minus that by the
            newest message of the joint [rad].
        wrong: sentences about values that are not those of their instants.
    """

    def __init__(self, node, output):
        self.ticks, self.newest, self.wrong = [], [], []
        self._node, self._processes = node, Processes(output)
        self._last = {}

    def __enter__(self):
        def note(name, value):
            self._last[name] = value

        create = self._node.create_subscription
        self._subscriptions = [
            create(Image, "/object/image_raw", lambda of: note("picture", pixels(of)), swing.QOS),
            create(
                JointState,
                "/object/joint_states",
                lambda of: note("angle", of.position[0]),
                swing.QOS,
            ),
        ]
        topic = f"{NAMESPACE}/fused_tensor"
        self._tensors = TensorSubscriber(self._node, self.take, topic=topic)
        self._processes.__enter__()
        self._processes.start("object", [sys.executable, REPOSITORY / "demo" / "swing.py"])
        given = ["-r", f"__ns:={NAMESPACE}", "-p", f"config_file:={CONFIG}"]
        command = [executable("fusion_node"), "--ros-args", *given]
        self._processes.start("object.fusion_node", command)
        return self

    def __exit__(self, *error):
        self._processes.__exit__(*error)
        self._tensors.destroy()
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)

    def wait(self, executor):
        """Spins until there are enough tensors, at most for `WAIT_S`."""
        end = time.monotonic() + WAIT_S
        while len(self.ticks) < ENOUGH and time.monotonic() < end:
            executor.spin_once(timeout_sec=0.1)
            self._processes.check()

    def take(self, tensor):
        """Takes a tensor."""
        if len(self._last) == 2:
            seen = swing.seen_angle(self._last["picture"])
            self.newest.append((tensor.stamp_ns, seen - self._last["angle"]))
        picture, joint = tensor["picture"], tensor["angle"]
        if not (picture.valid[-1] and joint.valid[-1]):
            return
        pixels = picture.float32()[-1]
        seen = swing.seen_angle(pixels.reshape(pixels.shape[-2:]))
        exposed = int(picture.target_ns[-1] - picture.age_ns[-1])
        # Between two messages it is interpolated, behind the newest one it is that one.
        held_ns = max(0, int(joint.age_ns[-1]))
        measured = int(joint.target_ns[-1]) - held_ns
        values = {
            "picture": (seen, exposed),
            "angle": (float(joint.float32()[-1].reshape(-1)[0]), measured),
        }
        for name, (value, instant) in values.items():
            truth = float(swing.angle(instant))
            if value is None or abs(value - truth) > MOST_RAD:
                self.wrong.append(
                    f"{name} of tick {tensor.tick}: expected {truth:.4f} rad, found {value}"
                )
        self.ticks.append((tensor.stamp_ns, values))

    def section(self):
        """The section of the report, or None without a tensor, and the problems."""
        problems = [f"one instant: {problem}" for problem in self._processes.problems]
        problems += [f"one instant: {wrong}" for wrong in self.wrong[:3]]
        aligned = [
            (stamp, values["picture"][0] - values["angle"][0]) for stamp, values in self.ticks
        ]
        if not aligned or not self.newest:
            return None, [*problems, "one instant: no tensor has both the picture and the angle"]
        apart = [values["picture"][1] - values["angle"][1] for _, values in self.ticks]
        text = (
            f"An object swings on a joint. A camera sees it, too, and its pictures come {swing.DELAY_NS / 1e6:g} ms after "
            f"their exposure. So if a policy takes the newest message of each, the picture shows the object "
            f"{spread(self.newest)} away from where the joint says that it is. In the tensors of the same ticks, it is "
            f"{spread(aligned)} away: both are of one instant, apart from the distance of pictures. Each tensor says how "
            f"far the picture is from its instant, here at most {max(map(abs, apart)) / 1e6:.0f} ms."
        )
        end = aligned[-1][0]
        curves = {"newest messages": self.newest, "in the tensor": aligned}
        plot = {
            "title": "angle by the camera minus angle by the joint, with both ways of alignment",
            "x": "time [s]",
            "y": "camera minus joint [rad]",
            "caption": f"An object that swings by {swing.AMPLITUDE_RAD:g} rad, at each tick of the node",
            "curves": [
                {
                    "name": name,
                    "points": [
                        [(stamp - end + SHOWN_NS) / 1e9, float(value)]
                        for stamp, value in points
                        if end - SHOWN_NS <= stamp <= end
                    ],
                }
                for name, points in curves.items()
            ],
        }
        blocks = [{"text": text}, {"plot": plot}]
        return {"title": "One instant", "blocks": blocks}, problems


def pixels(image):
    """The pixels of a message of grey values."""
    return np.frombuffer(image.data, np.uint8).reshape(image.height, image.width)


def spread(pairs):
    """The root of the mean square of the values of pairs, and the largest of them, in words."""
    values = np.abs([value for _, value in pairs])
    return f"{np.sqrt(np.mean(values**2)):.3f} rad (at most {values.max():.3f})"
