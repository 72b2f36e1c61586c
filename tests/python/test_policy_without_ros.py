"""The example policy without ROS: what it commands, and when it does not."""

import numpy as np
import policy_without_ros
import pytest

from robocache.message.tensor import FusedTensor, Segment

#: A row has positions and velocities, in an order that a configuration may choose.
CHANNELS = ["elbow.velocity", "elbow.position", "wrist.velocity", "wrist.position"]


def tensor(values, tick=1):
    """A tensor with one step of joints."""
    array = np.array([values], dtype="<f4")
    one = np.zeros(1, dtype=np.int64)
    steps = (np.ones(1, bool), one, one, np.full(1, array.shape[1]), np.ones(1, np.uint32))
    joints = Segment("joints", "f32", array, *steps)
    return FusedTensor(tick, 0, "base_link", {"joints": joints}, np.zeros(8, np.uint8))


class Reader:
    """Gives tensors, each with the run and the channels of its node."""

    missed = 0

    def __init__(self, given):
        self._given = iter(given)
        self.run = self.info = None

    def wait(self, timeout_s):
        self.run, channels, tensor = next(self._given)
        segments = [{"name": "joints", "channels": channels}]
        self.info = None if channels is None else {"segments": segments}
        return tensor


@pytest.fixture
def commands(monkeypatch):
    """`commands(given)` runs the policy with these tensors, and returns what it commands."""

    def run(given):
        sent = []
        monkeypatch.setattr(policy_without_ros, "TensorReader", lambda *_, **__: Reader(given))
        monkeypatch.setattr(policy_without_ros, "send", lambda command: sent.append(list(command)))
        arguments = ["policy_without_ros", "robot/fused_tensor", "--ticks", str(len(given))]
        monkeypatch.setattr("sys.argv", arguments)
        policy_without_ros.main()
        return sent

    return run


def test_it_commands_positions_and_no_velocities(commands):
    assert commands([(1, CHANNELS, tensor([100, 2, 100, 4]))]) == [[-1.0, -2.0]]


def test_it_follows_the_channels_of_a_node_that_starts_again(commands):
    given = [
        (1, CHANNELS, tensor([100, 2, 100, 4])),
        (2, CHANNELS[::-1], tensor([6, 100, 8, 100])),
        (2, CHANNELS[::-1], tensor([2, 100, 4, 100])),
    ]
    assert commands(given) == [[-1.0, -2.0], [-3.0, -4.0], [-1.0, -2.0]]


@pytest.mark.parametrize(
    ("channels", "reason"),
    [
        (None, "has not told what the channels are"),
        (["x.velocity"] * 4, "expected joint positions in joints"),
        (CHANNELS[:2], "expected 2 channels in joints, found a segment of [1, 4]"),
    ],
)
def test_without_known_positions_it_does_not_act(commands, capsys, channels, reason):
    assert commands([(1, channels, tensor([1, 2, 3, 4]))]) == []
    assert reason in capsys.readouterr().err
