"""What tests of contracts share: an arm, its recording, and `robocache check`."""

import configuration
import waiting
from bags import MS, T0, write_bag
from replays import replay

#: A stream of two joints, without its lag.
ARM = """\
  arm:
    type: sensor_msgs/JointState
    topic: /joints
    joints: [a, b]
    max_age_ms: 50
    history: {steps: 2, step_ms: 20}
"""


def record(folder, config, messages):
    """Writes robot.yaml, and the store of a recording of 40 periods. `messages(k, ns)`: those of a period.

    Returns the store.
    """
    (folder / "robot.yaml").write_text(config)
    instants = ((k, T0 + k * 20 * MS) for k in range(40))
    write_bag(folder / "bag", [message for k, ns in instants for message in messages(k, ns)])
    replay(folder / "robot.yaml", folder / "data", folder / "bag", options=["--format", "rows"])
    return folder / "data" / "rows.zarr"


def check(config, *options, code=0):
    """What `robocache check` prints on stdout and stderr."""
    done = waiting.run([configuration.program(), "check", config, *options])
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout, done.stderr
