"""The demo's verdict, and the example policy that it starts."""

from dataclasses import replace
from types import SimpleNamespace

import configuration
import demo
import numpy as np
import one_instant
import policy_node
import pytest
import rclpy
import report
import swing
from conftest import REPOSITORY
from rclpy.serialization import serialize_message
from recorder import Recorder
from robocache_ros.msg import FusedTensor as FusedTensorMsg
from robocache_ros.msg import FusedTensorInfo, SegmentInfo, TensorSegment

from robocache.message.tensor import FusedTensor, Segment, decode

PERIOD_NS = 10_000_000
#: The lag, the distance of history steps, and the age of every step relative to its target.
LAG_NS, STEP_NS, AGE_NS = 20_000_000, 10_000_000, 4_000_000
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
        targets = tick * PERIOD_NS - LAG_NS + (np.arange(stream.steps) - stream.steps + 1) * STEP_NS
        ages = np.full(stream.steps, AGE_NS)
        steps = (valid, targets, ages, np.full(stream.steps, width), valid.astype(np.uint32))
        if stream.name not in missing:
            segments[stream.name] = Segment(stream.name, "f32", array, *steps)
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


def test_ticks_that_nobody_counted_fail(config, recorder):
    fill(recorder, config, range(97))
    received, expected, (problem,) = demo.verdict(config, recorder, WINDOW)
    assert (received, expected) == (97, 100)
    assert "97 of 100 ticks came, the node counted 0 that it did not publish, and 0" in problem
    recorder.diagnostics.tick = {"overruns": "2", "unsent": "1"}
    assert demo.verdict(config, recorder, WINDOW) == (97, 100, [])


def test_no_tensor_at_all_fails(config, recorder):
    recorder.diagnostics.tick = {"overruns": "200"}
    problems = demo.verdict(config, recorder, WINDOW)[2]
    assert len(problems) == 1 + len(config.streams) and "0 of 100 ticks came" in problems[0]


def test_tensors_that_a_full_queue_lost_are_not_missing(config, recorder):
    fill(recorder, config, range(100))
    # After a pause, ticks 30 to 39 are gone, and ten wait.
    kept = [entry for entry in recorder.arrivals if not 30 <= entry[1] < 40]
    for late_ns, lost in ((9 * PERIOD_NS, 10), (9 * PERIOD_NS - 1, 0)):
        recorder.arrivals = [
            (stamp + late_ns * (tick == 40), tick, stamp) for _, tick, stamp in kept
        ]
        assert recorder.lost_here(PERIOD_NS) == lost
        assert bool(demo.verdict(config, recorder, WINDOW)[2]) == (not lost)


def test_each_stream_must_be_valid_in_the_measured_window(config, recorder):
    # Steps before and after the window do not count.
    fill(recorder, config, range(-50, 0))
    fill(recorder, config, range(100), missing=["wrench"])
    fill(recorder, config, range(100, 150))
    expected = "wrench: none of its 0 steps was valid"
    assert demo.verdict(config, recorder, WINDOW) == (100, 100, [expected])
    # No number of drops explains that a tensor lacks a stream.
    recorder.diagnostics.streams = {"wrench": {"dropped.overload": "9"}}
    assert demo.verdict(config, recorder, WINDOW) == (100, 100, [expected])


def test_a_stream_that_is_never_valid_fails_unless_the_machine_is_too_slow_for_it(config, recorder):
    for tick in range(100):
        old = tensor(config, tick)
        old["lidar"].valid[:] = False
        old["lidar"].age_ns[:] = 10**9
        recorder._on_tensor(old)
    (problem,) = demo.verdict(config, recorder, WINDOW)[2]
    assert problem.startswith("lidar: none of its 1")
    recorder.diagnostics.streams = {"lidar": {"dropped.overload": "9"}}
    assert demo.verdict(config, recorder, WINDOW) == (100, 100, [])


def test_a_flag_must_be_that_of_the_age(config, recorder):
    steps = next(of.steps for of in config.streams if of.name == "camera_front")
    fill(recorder, config, range(99))
    newest = tensor(config, 99)
    # Old rows are not valid, and may be few or many: that depends on the machine.
    for name in ("lidar", "camera_wrist"):
        newest[name].valid[:] = False
        newest[name].age_ns[:] = 10**9
    recorder._on_tensor(newest)
    assert demo.verdict(config, recorder, WINDOW) == (100, 100, [])
    fill(recorder, config, [98], invalid=["camera_front"])
    old = tensor(config, 97)
    old["imu"].age_ns[-1] = 10**9
    recorder._on_tensor(old)
    of_camera, of_imu = demo.verdict(config, recorder, WINDOW)[2]
    assert of_camera.startswith(f"camera_front: 1 of {102 * steps} steps are flagged against")
    assert of_imu.startswith("imu: 1 of ") and "up to 50 ms" in of_imu


def test_a_picture_shows_the_angle_of_its_instant():
    for ns in range(0, swing.PERIOD_NS, 7_654_321):
        assert abs(swing.seen_angle(swing.picture(ns)) - swing.angle(ns)) < 1e-4
    assert swing.seen_angle(np.zeros((2, 8))) is None


def seen_twice(ticks, picture_ns, truth_of=lambda ns: ns):
    """Judges ticks whose picture is of an instant `picture_ns` before the target."""
    shown = one_instant.OneInstant(None, "unused")
    for tick in ticks:
        target = tick * PERIOD_NS
        picture = swing.picture(truth_of(target - picture_ns)).astype("<f4")[None]
        angle = np.array([[swing.angle(target)]], "<f4")
        flags = np.ones(1, bool), np.array([target])
        ends = np.ones(1), np.ones(1, np.uint32)
        segments = {
            name: Segment(name, "f32", array, *flags, np.array([age]), *ends)
            for name, array, age in (("picture", picture, picture_ns), ("angle", angle, -1))
        }
        shown._last = {"picture": swing.picture(target - 80_000_000), "angle": angle[0, 0]}
        shown.take(FusedTensor(tick, target, "", segments, np.zeros(8, np.uint8)))
    return shown.section()


def test_a_camera_and_a_joint_are_of_one_instant():
    section, problems = seen_twice(range(200), 10_000_000)
    assert problems == []
    text, plot = (block for block in section["blocks"])
    assert "here at most 10 ms" in text["text"]
    newest, aligned = (np.array(of["points"])[:, 1] for of in plot["plot"]["curves"])
    # The fastest swing, times the time between the two.
    fastest = 2 * np.pi * swing.AMPLITUDE_RAD / swing.PERIOD_NS
    assert abs(np.abs(newest).max() - fastest * 80e6) < 0.01
    assert abs(np.abs(aligned).max() - fastest * 10e6) < 0.002


def test_a_picture_of_another_instant_than_it_says_fails():
    _, problems = seen_twice(range(200), 10_000_000, lambda ns: ns - 20_000_000)
    assert len(problems) == 3 and problems[0].startswith("one instant: picture of tick 0: expected")
    assert seen_twice([], 0) == (
        None,
        ["one instant: no tensor has both the picture and the angle"],
    )


def message(tick):
    """The bytes of a tensor with one segment, the joints."""
    joints = TensorSegment(name="joints", dtype_code=2, dtype_bits=32, dtype_lanes=1)
    joints.shape, joints.valid, joints.count, joints.inputs_valid = [1, 28], [True], [28], [1]
    joints.target_ns, joints.age_ns = [tick * PERIOD_NS - LAG_NS], [0]
    made = FusedTensorMsg(tick=tick, segments=[joints])
    made.header.stamp.nanosec = tick * PERIOD_NS
    made.data = np.full(28, 0.01 * tick, "<f4").view(np.uint8).tolist()
    return serialize_message(made)


def test_what_was_seen_becomes_a_report(config, recorder, tmp_path):
    for tick in range(5, 60):
        recorder._on_tensor(decode(message(tick)))
    recorder._on_info(serialize_message(info(CHANNELS)))
    recorder.diagnostics.tick = {"overruns": "3", "total_latency_p50_ms": "0.25"}
    imu = {"rate_hz": "500.1", "age_ms": "1e300", "dropped": "3", "dropped.late": "3"}
    recorder.diagnostics.streams = {"imu": imu}
    recorder.joints = {"joint_0": ([0, 300_000_000, 580_000_000], [0.0, 0.3, 0.58])}
    seen, page = tmp_path / "report.json", tmp_path / "report.html"
    measured = ((0, 60 * PERIOD_NS), (55, 60))
    way_back = {"title": "The way back", "blocks": [{"text": "9 chunks counted"}]}
    report.write(seen, config, recorder, measured, ["<too> few"], [way_back])
    assert demo.make_report(seen, page) == []
    html = page.read_text()
    assert "Failed<ul><li>&lt;too&gt; few</li></ul>" in html
    for expected in (
        "<b>3</b><span>overruns</span>",
        "<b>0.25 ms</b><span>tick latency p50</span>",
        "500.1 Hz",
        "3 late",
    ):
        assert expected in html
    assert "Raw against aligned" in html and "9 chunks counted" in html
    assert "Latency of 55 ticks" in html
    seen.write_text("{}")
    (problem,) = demo.make_report(seen, page)
    assert "exit code 1" in problem
    assert "robocache_report" in problem


def test_a_camera_that_ends_is_shown_as_not_valid(config, recorder):
    """It ends at tick 200, and its last image is valid for ten ticks more."""
    fill(recorder, config, range(100, 210))
    for tick in range(210, 360):
        newest = tensor(config, tick)
        newest[demo.ENDING].valid[:] = False
        recorder._on_tensor(newest)
    section = report.ending(config, recorder, 200 * PERIOD_NS, demo.ENDING)
    told, plot = section["blocks"]
    assert f"The driver of {demo.ENDING} ends at 0 s" in told["text"]
    assert "valid for 90 ms more" in told["text"] and "The 150 tensors" in told["text"]
    curves = {curve["name"]: curve["points"] for curve in plot["plot"]["curves"]}
    assert set(curves) == {stream.name for stream in config.streams}
    # The lag and the age of each step, from 1 s before to 1.5 s after.
    age_ms = (LAG_NS + AGE_NS) / 1e6
    assert curves["joints"] == [[at / 100, age_ms] for at in range(-100, 151)]
    assert curves[demo.ENDING][109:111] == [[0.09, age_ms], [0.1, None]]


def test_the_policy_of_the_demo_commands_positions(config):
    assert demo.policy_inputs(config) == ["joints", "wrench"]
    cameras = replace(config, streams=[s for s in config.streams if s.kind == "image"])
    assert demo.policy_inputs(cameras) == ["camera_front"]
    late = replace(config, streams=config.streams[::-1])
    assert demo.policy_inputs(late) == ["joints", "imu"]


def info(joints):
    """What the node publishes of the inputs' channels, with these channels of `joints`."""
    wrench = [f"{field}.{axis}" for field in ("force", "torque") for axis in "xyz"]
    channels = {"joints": joints, "wrench": wrench}
    return FusedTensorInfo(
        segments=[SegmentInfo(name=name, channels=names) for name, names in channels.items()]
    )


#: Those of the reference configuration.
CHANNELS = [f"joint_{at}.{field}" for field in ("position", "velocity") for at in range(14)]


@pytest.fixture
def policy():
    """The policy. Its clock stands still, so that a slow test does not age a tensor."""
    rclpy.init()
    made = policy_node.Policy()
    now = made.get_clock().now()
    made.get_clock = lambda: SimpleNamespace(now=lambda: now)
    made.on_info(info(CHANNELS))
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


def test_the_policy_finds_the_positions_by_their_names(config, policy):
    policy.on_info(info(CHANNELS[::-1]))
    sent = []
    policy.command = SimpleNamespace(publish=lambda msg: sent.append(list(msg.data)))
    newest = tensor(config, policy.get_clock().now().nanoseconds // PERIOD_NS)
    policy.on_tensor(newest)
    assert sent == [(-0.5 * newest["joints"].array[-1, 14:].astype(np.float64)).tolist()]


@pytest.mark.parametrize(
    ("channels", "problem"),
    [
        (CHANNELS[:27], "expected 27 channels in joints, found a segment of [16, 28]"),
        (CHANNELS[14:] * 2, "expected joint positions in joints, found joint_0.velocity, joint_1"),
        (None, "the node has not told what the channels are"),
    ],
)
def test_the_policy_refuses_a_row_that_it_does_not_understand(config, policy, channels, problem):
    policy.channels = None
    if channels:
        policy.on_info(info(channels))
    newest = tensor(config, policy.get_clock().now().nanoseconds // PERIOD_NS)
    assert problem in policy.problem_with(newest)
    policy.on_tensor(newest)
    assert (policy.acted, policy.refused) == (0, 1)


def test_the_policy_counts_the_lag_as_age(config, policy):
    """Each value is 4 ms older than its target, and that is 20 ms before the tick."""
    now_ns = policy.get_clock().now().nanoseconds
    newest = tensor(config, now_ns // PERIOD_NS)
    since_tick_ns = now_ns - newest.stamp_ns
    policy.max_age_ns = since_tick_ns + LAG_NS + AGE_NS
    assert policy.problem_with(newest) is None
    policy.max_age_ns -= 1
    problem = policy.problem_with(newest)
    assert "joints: the newest value was measured" in problem
    limit_ms = policy.max_age_ns / 1e6
    assert problem.endswith(f" ms ago, more than max_age_ms ({limit_ms:g} ms)")


def test_the_policy_judges_the_newest_step_that_is_not_in_the_future(config, policy):
    """The joints have a horizon: their last three steps are after the tick."""
    now_ns = policy.get_clock().now().nanoseconds
    newest = tensor(config, now_ns // PERIOD_NS)
    joints = newest["joints"]
    joints.target_ns += LAG_NS + 3 * STEP_NS
    assert joints.target_ns[-4] == newest.stamp_ns
    # A plan of a second ago is still being followed, but nothing has been measured since.
    joints.age_ns[:-3] = 1_000_000_000
    assert "joints: the newest value was measured 1" in policy.problem_with(newest)
    joints.age_ns[:-3] = AGE_NS
    assert policy.problem_with(newest) is None
    sent = []
    policy.command = SimpleNamespace(publish=lambda msg: sent.append(list(msg.data)))
    policy.on_tensor(newest)
    assert sent == [(-0.5 * joints.array[-4, :14].astype(np.float64)).tolist()]
    joints.target_ns += 16 * STEP_NS
    assert policy.problem_with(newest) == "joints: all of its steps are in the future"


def test_the_policy_refuses_invalid_and_old_inputs(config, policy):
    tick = policy.get_clock().now().nanoseconds // PERIOD_NS
    assert "joints: 1 invalid" in policy.problem_with(tensor(config, tick, invalid=["joints"]))
    problem = policy.problem_with(tensor(config, tick - 100))
    assert "the tensor itself is" in problem
    assert problem.endswith(" ms old, more than max_age_ms (100 ms)")
    assert "expected a stream 'wrench'" in policy.problem_with(
        tensor(config, tick, missing=["wrench"])
    )
    assert policy.problem_with(tensor(config, tick, invalid=["lidar"])) is None
