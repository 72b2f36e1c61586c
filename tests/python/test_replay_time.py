"""`robocache replay --time`: bags of a simulator that lack `/clock`, against the same bags with it."""

import numpy as np
import pytest
from bags import MS, T0, clock, joints, transforms, wrench, write_bag
from configs import WRENCH, configuration
from replays import raw, replay, tensors
from wrench_robot import PERIOD, segment

JOINTS = """
  joints: {type: sensor_msgs/msg/JointState, topic: /joints, strategy: hold, max_age_ms: 200, joints: [a]}
"""


@pytest.fixture(name="config")
def config_fixture(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(configuration(WRENCH, JOINTS.strip("\n")))
    return path


def simulated(start_ms, seconds, received, value):
    """Wrenches at 4 ms and joints at 10 ms, which are 35 ms late: (topic, receive stamp, message), with the stamps.

    The simulator runs at half speed, and stamps begin near zero.
    """
    random = np.random.default_rng(7)
    messages = []
    for k in range(int(seconds * 250)):
        ns = (start_ms + 4 * k) * MS + int(random.integers(0, MS))
        at = received + 2 * (ns - start_ms * MS)
        messages.append(("/wrench", at + MS, wrench(ns, value, k, 0), ns))
    for k in range(int(seconds * 100)):
        ns = (start_ms + 10 * k) * MS
        at = received + 2 * (ns + 35 * MS - start_ms * MS) + 1
        messages.append(("/joints", at, joints(ns, a=value + k), ns))
    return sorted(messages, key=lambda entry: entry[1])


def write(path, messages, readings=None):
    """A bag of these messages. If there are readings, each that is not None is on /clock in front of its message."""
    entries = []
    for at, (topic, received, message, _) in enumerate(messages):
        if readings is not None and readings[at] is not None:
            entries.append(("/clock", received, clock(readings[at])))
        entries.append((topic, received, message))
    return write_bag(path, entries)


def newest(messages, topics=("/wrench", "/joints")):
    """The readings of a clock that is at the newest stamp of these topics."""
    readings, now = [], -1
    for topic, _, _, ns in messages:
        is_newer = topic in topics and ns > now
        readings.append(ns if is_newer else None)
        now = max(now, ns) if is_newer else now
    return readings


def check_same(config, tmp_path, with_clock, without, time):
    ((outcome, expected),) = replay(config, tmp_path / "clock", with_clock)
    assert outcome == "done" and expected["simulated"]
    ((outcome, found),) = replay(config, tmp_path / "header", without, options=["--time", time])
    assert outcome == "done" and found["simulated"]
    same = ("ticks", "overruns", "clock_jumps", "streams", "inputs", "skew")
    assert {key: found[key] for key in same} == {key: expected[key] for key in same}
    got = raw(tmp_path / f"header/{without.name}.mcap")
    assert got == raw(tmp_path / f"clock/{with_clock.name}.mcap")
    return found, tensors(tmp_path / f"header/{without.name}.mcap")


def test_stamps_set_the_clock_as_a_clock_of_these_instants(config, tmp_path):
    messages = simulated(100, 3, T0, 1)
    without = write(tmp_path / "sim", messages)
    # On the recorder's clock no tick has a value.
    ((_, summary),) = replay(config, tmp_path / "receive", without)
    assert not summary["simulated"]
    assert {stream["valid_share"] for stream in summary["streams"].values()} == {0}

    with_clock = write(tmp_path / "clock/sim", messages, newest(messages))
    summary, got = check_same(config, tmp_path, with_clock, without, "header")
    assert summary["clock_jumps"] == 0
    numbers = [tensor.tick for tensor in got]
    assert len(numbers) > 280 and numbers == sorted(numbers) and numbers[0] < 20
    _, (valid, target, _) = segment(got[150], "wrench")
    assert valid and target == got[150].tick * PERIOD - 20 * MS
    assert summary["streams"]["joints"]["valid_share"] > 0.95


def test_a_reset_begins_an_epoch_and_late_messages_do_not_end_it(config, tmp_path):
    first = simulated(5000, 2, T0, 1)
    second = simulated(0, 2, T0 + 4_000 * MS, 1000)
    # Joints from before the reset come after it.
    messages = sorted(first + second, key=lambda entry: entry[1])
    reset = next(at for at, entry in enumerate(messages) if entry[1] >= T0 + 4_000 * MS)
    late = [entry for entry in messages[reset:] if entry[3] >= 5000 * MS]
    assert late, "the test has such messages"
    # What the rule of the module says: joints count again when their own stamps have gone back.
    wrenches = newest(messages[:reset]), messages[reset:]
    readings, now, joints_are_back = list(wrenches[0]), -1, False
    for topic, _, _, ns in wrenches[1]:
        joints_are_back = joints_are_back or (topic == "/joints" and ns < 4000 * MS)
        counts = ns > 0 and (topic == "/wrench" or joints_are_back) and ns > now
        readings.append(ns if counts else None)
        now = ns if counts else now
    without = write(tmp_path / "sim", messages)
    with_clock = write(tmp_path / "clock/sim", messages, readings)
    summary, got = check_same(config, tmp_path, with_clock, without, "header")
    assert summary["clock_jumps"] == 1
    numbers = [tensor.tick for tensor in got]
    (back,) = [at for at in range(1, len(numbers)) if numbers[at] <= numbers[at - 1]]
    assert numbers[back - 1] > 680 and numbers[back] < 5 and numbers[-1] > 190
    for tensor in got[back:]:
        values, (valid, _, _) = segment(tensor, "joints")
        assert not valid or values[0] >= 1000


def test_one_topic_can_set_the_clock_also_if_no_stream_reads_it(config, tmp_path):
    messages = simulated(100, 2, T0, 1)
    odometry = [
        ("/odom", received + 10, wrench(ns, 0, 0, 0), ns)
        for topic, received, _, ns in messages
        if topic == "/joints"
    ]
    messages = sorted(messages + odometry, key=lambda entry: entry[1])
    without = write(tmp_path / "sim", messages)
    with_clock = write(tmp_path / "clock/sim", messages, newest(messages, ["/odom"]))
    _, got = check_same(config, tmp_path, with_clock, without, "header:/odom")
    assert len(got) > 190


def test_zero_stamps_transforms_and_plans_are_no_readings(config, tmp_path):
    messages = simulated(100, 2, T0, 1)
    readings = newest(messages)
    wall = T0 + 500 * MS
    others = [
        (0, ("/tf_static", T0, transforms((wall, "base_link", "lidar", 0.5)), wall)),
        (300, ("/wrench", messages[300][1], wrench(0, 5, 5, 5), 0)),
        (400, ("/unread", messages[400][1], wrench(wall, 5, 5, 5), wall)),
    ]
    for at, entry in reversed(others):
        messages.insert(at, entry)
        readings.insert(at, None)
    without = write(tmp_path / "sim", messages)
    with_clock = write(tmp_path / "clock/sim", messages, readings)
    summary, _ = check_same(config, tmp_path, with_clock, without, "header")
    assert summary["inputs"]["wrench wrench"]["dropped"] == {"zero_stamp": 1}


def test_a_part_of_a_bag_begins_with_its_own_stamps(config, tmp_path):
    messages = simulated(100, 3, T0, 1)
    without = write(tmp_path / "sim", messages)
    options = ["--time", "header", "--start", "1", "--end", "3"]
    ((_, summary),) = replay(config, tmp_path / "out", without, options=options)
    got = tensors(tmp_path / "out/sim.mcap")
    # A second of the recorder's clock is half a second of the simulator's. The first joints are 35 ms late.
    assert 56 <= got[0].tick < 64 and 156 < got[-1].tick < 163 and summary["simulated"]


def test_what_cannot_set_the_clock_is_an_error(config, tmp_path):
    bag = write(tmp_path / "sim", simulated(100, 1, T0, 1))
    for time, expected in (
        (
            "header:/odom",
            "expected the topic /odom in the bag, found /joints (sensor_msgs/msg/JointState), /wr",
        ),
        ("clock", "expected messages of rosgraph_msgs/msg/Clock on /clock, found none"),
    ):
        ((outcome, failure),) = replay(
            config, tmp_path / "out", bag, expect=1, options=["--time", time]
        )
        assert outcome == "failed" and expected in failure["error"]
    said = replay(config, tmp_path / "out", bag, expect=2, options=["--time", "odom"])
    assert "expected auto, receive, clock, header or header:/TOPIC, found 'odom'" in said
    ((_, failure),) = replay(
        config,
        tmp_path / "out",
        write_bag(
            tmp_path / "tf",
            [*[m[:3] for m in simulated(0, 1, T0, 1)], ("/tf", T0, transforms((5, "a", "b", 1)))],
        ),
        expect=1,
        options=["--time", "header:/tf"],
    )
    assert (
        "expected messages with a header on /tf, found tf2_msgs/msg/TFMessage" in failure["error"]
    )


def test_python_replays_by_the_stamps_too(config, tmp_path):
    robocache = pytest.importorskip("robocache")
    bag = write(tmp_path / "sim", simulated(100, 1, T0, 1))
    replay(config, tmp_path / "out", bag, options=["--time", "header"])
    expected = [tensor.tick for tensor in tensors(tmp_path / "out/sim.mcap")]
    for time in ("header", "header:/wrench"):
        (episode,) = robocache.replay(bag, config, time=time)
        ticks = [tensor.tick for tensor in episode]
        assert len(ticks) > 90 and (time != "header" or ticks == expected)
    with pytest.raises(ValueError, match="time: expected auto, receive, clock, header"):
        list(robocache.replay(bag, config, time="odom")[0])
