"""`robocache to-lerobot`: an action is what was commanded at the instant of its frame, also if its message came later."""

import json

import numpy as np
import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
for needed in ("av", "mcap", "pyarrow", "rosbags", "zarr"):
    pytest.importorskip(needed, exc_type=ImportError)
import pyarrow as pa  # noqa: E402 (what is missing is said first)
import pyarrow.parquet as pq  # noqa: E402
import robots  # noqa: E402
from bags import MS, T0, clock, joints, made, write_bag  # noqa: E402
from configs import configuration  # noqa: E402

import robocache  # noqa: E402
from robocache.lerobot import to_lerobot  # noqa: E402
from robocache.lerobot.cli import main  # noqa: E402

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*are left out:RuntimeWarning"),
]
LAG = 20 * MS
JOINTS = """\
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joints
    joints: [a]
    max_age_ms: 40
    strategy: linear
"""
ACTION = """\
  action:
    type: sensor_msgs/msg/JointState
    topic: /command
    joints: [a]
    max_age_ms: 60
    max_gap_ms: 60
    strategy: linear
"""
CONFIG = configuration(JOINTS, ACTION, rate_hz=20, top="lag_ms: 20\n")
#: Commands are between the ticks, and each comes late.
OFF, LATE = 25 * MS, 10 * MS


def messages_of(seconds=3, first_ns=T0, arrive_ns=T0):
    """Joints have the value of their seconds; command `k` has the value `k`, and is 50 k + 25 ms after the first."""
    messages = []
    for k in range(seconds * 100):
        ns = k * 10 * MS
        messages.append(("/joints", arrive_ns + ns + MS, joints(first_ns + ns, a=k / 100)))
    for k in range(seconds * 20):
        ns = k * 50 * MS + OFF
        messages.append(("/command", arrive_ns + ns + LATE, joints(first_ns + ns, a=k)))
    return sorted(messages, key=lambda message: message[1])


@pytest.fixture(name="robot")
def robot_fixture(tmp_path):
    write_bag(tmp_path / "bags" / "arm", messages_of())
    (tmp_path / "robot.yaml").write_text(CONFIG)
    return tmp_path


def rows_of(out):
    return pa.concat_tables(map(pq.read_table, sorted(out.glob("data/*/*.parquet"))))


def test_an_action_is_the_command_at_the_tick(robot, tmp_path, capfd):
    out = tmp_path / "out"
    arguments = [str(tmp_path / "bags"), f"--config={tmp_path / 'robot.yaml'}", f"--out={out}"]
    assert main(arguments) == 0
    assert "action: action is taken 0 ms before the tick of its frame" in capfd.readouterr().out
    rows = rows_of(out)
    stamps = np.array(rows["stamp_ns"])
    assert len(rows) > 50 and set(rows["valid.action"].to_pylist()) == {True}
    # A tick is half way between two commands. The later one has not come by then.
    expected = (stamps - T0 - OFF) / (50 * MS)
    assert set(expected[:-1] % 1) == {0.5}
    got = np.array(rows["action"].to_pylist(), np.float64)
    assert np.array_equal(got[:-1], expected[:-1])
    assert np.array_equal(np.array(rows["target_ns.action"]), stamps)
    # Observations keep their lag.
    assert np.array_equal(np.array(rows["target_ns.joints"]), stamps - LAG)
    np.testing.assert_allclose(
        rows["observation.state"].to_pylist(), (stamps - LAG - T0) / 1e9, atol=1e-6
    )
    about = json.loads((out / "meta/robocache.json").read_text())
    assert about["actions"] == {"action": {"lag_ns": 0}}
    assert about["contract"]["streams"].keys() == {"joints"}


def test_a_stream_may_say_its_own_lag(robot, tmp_path, capfd):
    config, out = tmp_path / "own.yaml", tmp_path / "out"
    config.write_text(
        CONFIG.replace("    topic: /command\n", "    topic: /command\n    lag_ms: 12.5\n")
    )
    assert main([str(tmp_path / "bags"), f"--config={config}", f"--out={out}"]) == 0
    assert "action: action is taken 12.5 ms before the tick" in capfd.readouterr().out
    rows = rows_of(out)
    stamps = np.array(rows["stamp_ns"])
    assert np.array_equal(np.array(rows["target_ns.action"]), stamps - 12_500_000)
    expected = (stamps - 12_500_000 - T0 - OFF) / (50 * MS)
    assert np.array_equal(np.array(rows["action"].to_pylist())[:-1], expected[:-1])
    about = json.loads((out / "meta/robocache.json").read_text())
    assert about["actions"] == {"action": {"lag_ns": 12_500_000}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_gap_ms: 60\n    strategy: linear", "strategy: hold"),
        ("max_gap_ms: 60", "held: [a]\n    max_gap_ms: 60"),
    ],
)
def test_an_action_may_hold_the_command_before(robot, tmp_path, old, new):
    """A gripper is open or closed, and a change is no half of two."""
    config, out = tmp_path / "held.yaml", tmp_path / "out"
    assert CONFIG.count(old) == 1
    config.write_text(CONFIG.replace(old, new))
    to_lerobot([tmp_path / "bags"], config, out)
    rows = rows_of(out)
    expected = np.floor((np.array(rows["stamp_ns"]) - T0 - OFF) / (50 * MS))
    assert len(rows) > 50 and np.array_equal(np.array(rows["action"].to_pylist()), expected)


def test_an_action_has_the_bits_of_a_window_of_all_rows(robot, tmp_path):
    out, config = tmp_path / "out", tmp_path / "robot.yaml"
    to_lerobot([tmp_path / "bags"], config, out)
    robots.replay([tmp_path / "bags"], config, tmp_path / "rows", "--format=rows")
    cache = robocache.EpisodeCache.load(tmp_path / "rows/rows.zarr")
    rows = rows_of(out)
    stamps = np.array(rows["stamp_ns"])
    windows = cache.windows(
        np.zeros(len(stamps), int), stamps, {"action": {"lag_ms": 0, "rows": "all"}}
    )
    assert np.array_equal(windows["action"].array[:, 0, 0], np.array(rows["action"]))
    assert np.array_equal(windows["action"].age_ns[:, 0], np.array(rows["age_ns.action"]))


def test_the_node_keeps_the_lag_of_the_stream(robot, tmp_path):
    robots.replay([tmp_path / "bags"], tmp_path / "robot.yaml", tmp_path / "mcap")
    played = robots.tensors(tmp_path / "mcap/arm.mcap")
    late = played[30]["action"]
    assert late.target_ns[-1] == played[30].stamp_ns - LAG


def test_an_epoch_of_a_simulator_has_its_own_commands(tmp_path):
    """The simulator begins again: the same instants come twice, with other commands."""
    first, second = (
        messages_of(first_ns=5 * 10**9),
        messages_of(first_ns=5 * 10**9, arrive_ns=T0 + 4 * 10**9),
    )
    entries = []
    for begin, messages in ((T0, first), (T0 + 4 * 10**9, second)):
        for topic, received, message in messages:
            reading = 5 * 10**9 + received - begin
            entries.append(("/clock", received, clock(reading)))
            if topic == "/command" and begin > T0:
                ns = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
                message = joints(ns, a=message.position[0] + 1000)
            entries.append((topic, received, message))
    write_bag(tmp_path / "bags" / "sim", entries)
    (tmp_path / "robot.yaml").write_text(CONFIG)
    out = tmp_path / "out"
    assert to_lerobot([tmp_path / "bags"], tmp_path / "robot.yaml", out)[0] == 2
    rows = rows_of(out)
    stamps, epochs = np.array(rows["stamp_ns"]), np.array(rows["epoch"])
    assert len(set(epochs)) == 2
    expected = (stamps - 5 * 10**9 - OFF) / (50 * MS) + 1000 * (epochs == epochs.max())
    is_between = expected % 1 == 0.5
    inside = is_between & (np.append(np.diff(epochs), 1) == 0)
    got = np.array(rows["action"], np.float64)
    assert inside.sum() > 100 and np.array_equal(got[inside], expected[inside])


def test_a_plan_counts_as_it_was_known_at_the_tick(tmp_path):
    plan = """\
  plan:
    type: trajectory_msgs/msg/JointTrajectory
    topic: /plan
    joints: [a]
    max_age_ms: 100
    max_gap_ms: 200
"""
    config = tmp_path / "robot.yaml"
    config.write_text(configuration(JOINTS, plan, rate_hz=20, top="lag_ms: 20\n"))
    duration, point = "builtin_interfaces/msg/Duration", "trajectory_msgs/msg/JointTrajectoryPoint"
    none = np.array([], np.float64)

    def planned(ns, value):
        points = [
            made(
                point,
                positions=np.array([value + k / 10]),
                velocities=none,
                accelerations=none,
                effort=none,
                time_from_start=made(duration, sec=0, nanosec=k * 100 * MS),
            )
            for k in range(10)
        ]
        head = joints(ns).header
        return made(
            "trajectory_msgs/msg/JointTrajectory", header=head, joint_names=["a"], points=points
        )

    messages = [each for each in messages_of() if each[0] == "/joints"]
    # Each 0.5 s a plan of 0.9 s, which comes 40 ms after its begin.
    messages += [
        ("/plan", T0 + (500 * k + 40) * MS, planned(T0 + 500 * k * MS, 100.0 * k)) for k in range(6)
    ]
    write_bag(tmp_path / "bags" / "arm", sorted(messages, key=lambda message: message[1]))
    out = tmp_path / "out"
    assert to_lerobot([tmp_path / "bags"], config, out)[0] == 1
    rows = rows_of(out)
    ms = (np.array(rows["stamp_ns"]) - T0) // MS
    newest = np.maximum((ms - 40) // 500, 0)
    expected = 100 * newest + (ms - 500 * newest) / 1000
    inside = (ms > 60) & ((ms - 500 * newest) <= 900)
    got = np.array(rows["action"].to_pylist(), np.float64).reshape(-1)
    assert inside.sum() > 40
    np.testing.assert_allclose(got[inside], expected[inside], rtol=1e-5)
