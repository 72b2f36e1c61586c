"""The demo's verdict, and the example policy that it starts."""

from dataclasses import replace
from types import SimpleNamespace

import configuration
import demo
import numpy as np
import policy_node
import pytest
import rclpy
from conftest import REPOSITORY
from recorder import Recorder

from robocache.tensor import FusedTensor, Segment

PERIOD_NS = 10_000_000
#: A window of 100 ticks.
WINDOW = (0, 100 * PERIOD_NS)


@pytest.fixture(scope="module")
def config():
    return configuration.load(REPOSITORY / "config" / "robocache.yaml")


def tensor(config, tick, invalid=(), missing=()):
    """A tensor of small segments. The first step of each stream in `invalid` is not valid."""
    segments = {}
    for stream in config.streams:
        width = 28 if stream.name == "joints" else 6
        array = np.arange(stream.steps * width, dtype="<f4").reshape(stream.steps, width)
        valid = np.ones(stream.steps, dtype=bool)
        valid[0] = stream.name not in invalid
        ages = np.zeros(stream.steps, dtype=np.int64)
        if stream.name not in missing:
            segments[stream.name] = Segment(stream.name, "f32", array, valid, ages)
    return FusedTensor(tick, tick * PERIOD_NS, "base_link", segments, np.zeros(8, np.uint8))


@pytest.fixture
def recorder(config):
    return Recorder(SimpleNamespace(create_subscription=lambda *_, **__: None), config)


def fill(recorder, config, ticks, **changes):
    for tick in ticks:
        recorder._on_tensor(tensor(config, tick, **changes))


def test_all_ticks_with_all_steps_valid_pass(config, recorder):
    fill(recorder, config, range(100))
    assert demo.verdict(config, recorder, WINDOW) == (100, 100, [])


def test_missing_ticks_fail(config, recorder):
    fill(recorder, config, range(97))
    received, expected, (problem,) = demo.verdict(config, recorder, WINDOW)
    assert (received, expected) == (97, 100)
    assert "configured 100 Hz: 97 of 100 ticks (97.0 %, expected at least 98 %)" in problem


def test_each_stream_must_be_valid_in_the_measured_window(config, recorder):
    # Steps before and after the window do not count.
    fill(recorder, config, range(-50, 0), invalid=["lidar", "imu"])
    fill(recorder, config, range(5), invalid=["lidar"])
    fill(recorder, config, range(5, 94))
    fill(recorder, config, range(94, 100), invalid=["imu"])
    fill(recorder, config, range(100, 150), invalid=["camera_front"])
    expected = "imu: 94.0 % of its steps were valid, expected at least 95 %"
    assert demo.verdict(config, recorder, WINDOW) == (100, 100, [expected])


def test_the_valid_share_counts_steps_and_not_tensors(config, recorder):
    fill(recorder, config, range(100), invalid=["joints"])  # one of 16 steps: 93.75 %
    _, _, problems = demo.verdict(config, recorder, WINDOW)
    assert problems == ["joints: 93.8 % of its steps were valid, expected at least 95 %"]


def test_a_stream_that_no_tensor_has_fails(config, recorder):
    fill(recorder, config, range(100), missing=["wrench"])
    _, _, problems = demo.verdict(config, recorder, WINDOW)
    assert problems == ["wrench: 0.0 % of its steps were valid, expected at least 95 %"]


def test_the_policy_of_the_demo_commands_positions(config):
    assert demo.policy_parameters(config) == [
        "-p", "inputs:=[joints, wrench]", "-p", "commanded:=14",
    ]  # fmt: skip
    cameras = replace(config, streams=[s for s in config.streams if s.kind == "image"])
    assert demo.policy_parameters(cameras) == [
        "-p", "inputs:=[camera_front]", "-p", "commanded:=0",
    ]  # fmt: skip
    late = replace(config, streams=config.streams[::-1])
    assert "inputs:=[joints, imu]" in demo.policy_parameters(late)


@pytest.fixture
def policy():
    rclpy.init()
    made = policy_node.Policy()
    yield made
    made.destroy_node()
    rclpy.shutdown()


def test_the_policy_commands_each_joint_once(config, policy):
    newest = tensor(config, policy.get_clock().now().nanoseconds // PERIOD_NS)
    sent = []
    policy.command = SimpleNamespace(publish=lambda msg: sent.append(list(msg.data)))
    policy.on_tensor(newest)
    positions = newest["joints"].array[-1, :14]
    assert sent == [(-0.5 * positions.astype(np.float64)).tolist()]
    assert (policy.acted, policy.refused) == (1, 0)


@pytest.mark.parametrize("commanded", [0, 29])
def test_the_policy_refuses_to_command_more_than_its_row_has(config, policy, commanded):
    policy.commanded = commanded
    policy.on_tensor(tensor(config, policy.get_clock().now().nanoseconds // PERIOD_NS))
    assert (policy.acted, policy.refused) == (0, 1)


def test_the_policy_refuses_invalid_and_old_inputs(config, policy):
    tick = policy.get_clock().now().nanoseconds // PERIOD_NS
    assert "joints: 1 invalid" in policy.problem_with(tensor(config, tick, invalid=["joints"]))
    assert "the tensor itself is" in policy.problem_with(tensor(config, tick - 100))
    assert "expected a stream 'wrench'" in policy.problem_with(
        tensor(config, tick, missing=["wrench"])
    )
    assert policy.problem_with(tensor(config, tick, invalid=["lidar"])) is None
