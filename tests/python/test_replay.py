"""`robocache replay`: bags of independent writers, read back by independent readers.

What a tick must be is worked out here with integers, NumPy and Pillow.
"""

import re
import resource
import shutil
import signal

import numpy as np
import pytest
from bags import MS, T0, clock, made, wrench, write_bag
from mcap.reader import make_reader
from mcap_ros2.reader import read_ros2_messages
from PIL import Image as Picture
from replays import files, interrupted, raw, replay, stamp_of, tensors
from same_files import expect_same
from wrench_robot import (  # noqa: F401
    CONFIG,
    LAG,
    PERIOD,
    bag_fixture,
    config_fixture,
    messages_fixture,
    robot,
    segment,
)

#: Age of a step for which there is no row.
NO_AGE = 2**63 - 1


def check_wrench(tensor, rows, tick_ns):
    """Linear between the rows around the target; as hold after the newest."""
    values, (valid, target, age) = segment(tensor, "wrench")
    assert target == tick_ns - LAG
    stamps = [ns for ns, _ in rows]
    after = int(np.searchsorted(stamps, target, side="left"))
    if after < len(rows) and stamps[after] == target:
        expected, newest = rows[after][1], target
    elif 0 < after < len(rows):
        (a, left), (b, right) = rows[after - 1], rows[after]
        weight = np.float32(target - a) / np.float32(b - a)
        expected = left + weight * (right - left)
        newest = b
    elif after == len(rows) and rows:
        newest, expected = rows[-1]
    else:
        assert not valid and age == NO_AGE
        return False
    assert valid and age == target - newest
    np.testing.assert_allclose(values[:3], expected, rtol=1e-5, atol=1e-6)
    return True


def test_every_tick_is_what_numpy_and_pillow_say(config, bag, messages, tmp_path):
    ((outcome, summary),) = replay(config, tmp_path / "out", bag)
    assert outcome == "done" and summary["whole"] and not summary["problems"]
    got = tensors(tmp_path / "out/robot.mcap")
    first, last = messages[0][1], messages[-1][1]
    ticks = range(-(-first // PERIOD), last // PERIOD + 1)
    assert [tensor.tick for tensor in got] == list(ticks) and summary["ticks"] == len(ticks)
    valid = 0
    for tensor in got:
        now = tensor.tick * PERIOD
        assert tensor.header.stamp.sec * 10**9 + tensor.header.stamp.nanosec == now
        arrived = [entry for entry in messages if entry[1] <= now]
        rows = sorted(
            (stamp_of(m), np.array([m.wrench.force.x, m.wrench.force.y, m.wrench.force.z], "f4"))
            for topic, _, m in arrived
            if topic == "/wrench"
        )
        valid += check_wrench(tensor, rows, now)

        images = [m for topic, _, m in arrived if topic == "/camera" and stamp_of(m) <= now]
        values, (is_valid, target, age) = segment(tensor, "camera")
        assert is_valid == bool(images) and target == now
        if images:
            assert age == now - stamp_of(images[-1])
            picture = Picture.fromarray(images[-1].data.reshape(48, 64, 3))
            expected = np.asarray(picture.resize((16, 12), Picture.BILINEAR))
            np.testing.assert_array_equal(values, expected)
    share = summary["streams"]["wrench"]["valid_share"]
    assert share == pytest.approx(valid / len(got)) and valid > 100


def test_storages_and_compressions_give_the_same_tensors(config, messages, bag, tmp_path):
    kinds = [("sqlite3", None), ("sqlite3", "file"), ("sqlite3", "message")]
    kinds += [("mcap", "file"), ("mcap", "message"), ("mcap", "storage")]
    bags = [
        write_bag(tmp_path / f"{storage}_{compress}", messages, storage, compress)
        for storage, compress in kinds
    ]
    outcomes = replay(config, tmp_path / "out", bag, *bags)
    assert [outcome for outcome, _ in outcomes] == ["done"] * (1 + len(kinds))
    expected = raw(tmp_path / "out/robot.mcap")
    assert len(expected) > 100
    for other in bags:
        assert raw(tmp_path / f"out/{other.name}.mcap") == expected
    # A file alone, without metadata.yaml.
    (file,) = bag.glob("*.mcap")
    alone = tmp_path / "alone.mcap"
    alone.write_bytes(file.read_bytes())
    replay(config, tmp_path / "out", alone)
    assert raw(tmp_path / "out/alone.mcap") == expected


def test_ros_tools_can_read_a_result(config, bag, tmp_path):
    replay(config, tmp_path / "out", bag)
    path = tmp_path / "out/robot.mcap"
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        assert reader.get_header().profile == "ros2"
        summary = reader.get_summary()
        names = {schema.name for schema in summary.schemas.values()}
        assert names == {"robocache_ros/msg/FusedTensor", "robocache_ros/msg/FusedTensorInfo"}
        first = next(reader.iter_messages())[1]
        assert first.topic == "/fused_tensor/info", "latched, so it is first"
        (record,) = [record for record in reader.iter_metadata() if record.name == "robocache"]
        assert record.metadata["configuration"] == CONFIG
    (info,) = read_ros2_messages(str(path), topics=["/fused_tensor/info"])
    assert info.ros_msg.config == CONFIG and len(info.ros_msg.segments) == 2
    # rosbags compiles the definitions in the file by its own parser.
    from rosbags.highlevel import AnyReader

    with AnyReader([path]) as any_reader:
        connection = next(c for c in any_reader.connections if c.topic == "/fused_tensor")
        _, _, data = next(any_reader.messages([connection]))
        message = any_reader.deserialize(data, connection.msgtype)
        assert [part.name for part in message.segments] == ["wrench", "camera"]


def test_episodes_do_not_depend_on_each_other_or_on_their_number_at_once(config, tmp_path):
    bags = [write_bag(tmp_path / f"all/{k:02}", robot(60, seed=k)) for k in range(20)]
    one, many = tmp_path / "one", tmp_path / "many"
    # A bag that is named twice is one episode.
    outcomes = replay(config, one, tmp_path / "all", bags[3], options=["--jobs", 1])
    assert [summary["name"] for _, summary in outcomes] == [f"{k:02}" for k in range(20)]
    replay(config, many, *reversed(bags), options=["--jobs", 4])
    for k in range(20):
        expect_same(many / f"{k:02}.mcap", one / f"{k:02}.mcap")


def test_a_result_does_not_depend_on_the_folder_of_the_configuration(config, bag, tmp_path):
    other = tmp_path / "elsewhere" / config.name
    other.parent.mkdir()
    shutil.copy(config, other)
    replay(config, tmp_path / "out", bag)
    ((outcome, _),) = replay(other, tmp_path / "out", bag)
    assert outcome == "kept", "it is the same configuration"
    replay(other, tmp_path / "again", bag)
    expect_same(tmp_path / "again/robot.mcap", tmp_path / "out/robot.mcap")
    (info,) = read_ros2_messages(str(tmp_path / "out/robot.mcap"), topics=["/fused_tensor/info"])
    assert info.ros_msg.config_file == config.name
    for kind in ("rows", "zarr"):
        results = []
        for number, path in enumerate((config, other)):
            out = tmp_path / f"{kind} {number}"
            replay(path, out, bag, options=["--format", kind])
            results.append(out)
        expect_same(results[1], results[0])
    # An error names the whole path.
    other.write_text("rate_hz: never\n")
    ((_, failure),) = replay(other, tmp_path / "wrong", bag, expect=1)
    assert f"{other}:1" in failure["error"]


def test_a_bad_episode_does_not_stop_the_others_and_results_are_kept(config, bag, tmp_path):
    bad = tmp_path / "bad.mcap"
    bad.write_bytes(b"no bag at all" * 10)
    outcomes = replay(config, tmp_path / "out", bad, bag, expect=1)
    assert [outcome for outcome, _ in outcomes] == ["failed", "done"]
    assert "bad.mcap" in outcomes[0][1]["error"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"robot.mcap", "replay.json"}

    before = (tmp_path / "out/robot.mcap").stat()
    ((outcome, _),) = replay(config, tmp_path / "out", bag)
    after = (tmp_path / "out/robot.mcap").stat()
    assert outcome == "kept" and after.st_ino == before.st_ino
    # Another configuration, or another option, makes it again only if that is asked for.
    other = config.with_name("other.yaml")
    other.write_text(CONFIG.replace("max_age_ms: 50", "max_age_ms: 40"))
    for given, options in ((other, []), (config, ["--rate-hz", "50"])):
        ((_, failure),) = replay(given, tmp_path / "out", bag, expect=1, options=options)
        assert "robot.mcap: expected a result of this configuration" in failure["error"]
        assert "--replace" in failure["error"]
    assert (tmp_path / "out/robot.mcap").stat().st_ino == after.st_ino
    ((outcome, _),) = replay(config, tmp_path / "out", bag)
    assert outcome == "kept"
    ((outcome, _),) = replay(other, tmp_path / "out", bag, options=["--replace"])
    assert outcome == "done"
    # Messages of another definition are made again.
    ledger = tmp_path / "out/replay.json"
    text, count = re.subn(
        "; messages [0-9a-f]{16};", "; messages 0123456789abcdef;", ledger.read_text()
    )
    assert count == 1
    ledger.write_text(text)
    ((outcome, _),) = replay(other, tmp_path / "out", bag)
    assert outcome == "done"


def test_a_full_disk_is_an_error_and_leaves_nothing(config, bag, tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    # In the middle of the file, and at its end.
    long = write_bag(tmp_path / "long", robot(6000))
    for given in (long, bag):
        ((outcome, summary),) = replay(config, tmp_path / "out", given, expect=1, preexec_fn=limit)
        assert outcome == "failed" and f"{given.name}.mcap" in summary["error"]
        assert "File too large" in summary["error"]
        assert list((tmp_path / "out").iterdir()) == []


def test_a_result_never_replaces_a_recording_or_the_result_of_another_bag(config, bag, tmp_path):
    (file,) = bag.glob("*.mcap")
    recording = tmp_path / "bags" / "robot.mcap"
    recording.parent.mkdir()
    recording.write_bytes(file.read_bytes())
    ((outcome, failure),) = replay(config, recording.parent, recording, expect=1)
    assert outcome == "failed" and "it exists and is no result" in failure["error"]
    expect_same(recording, file)

    replay(config, tmp_path / "out", bag)
    before = files(tmp_path / "out")
    ((outcome, failure),) = replay(config, tmp_path / "out", recording, expect=1)
    assert outcome == "failed" and f"the result of {bag}" in failure["error"]
    expect_same(tmp_path / "out", before, apart_from=["replay.json"])
    # Results among the bags are no bags.
    outcomes = replay(config, tmp_path / "out", tmp_path, expect=1)
    assert [summary["name"] for _, summary in outcomes] == ["robot"]


def test_an_interrupted_run_leaves_nothing_incomplete(config, tmp_path):
    bags = [write_bag(tmp_path / f"all/{k}", robot(seed=k)) for k in range(3)]
    code, said = interrupted(config, tmp_path / "out", *bags)
    assert code == 1 and said.splitlines() == [f"{k}: stopped, and left out" for k in (1, 2)]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"0.mcap", "replay.json"}
    outcomes = replay(config, tmp_path / "out", *bags)
    assert [outcome for outcome, _ in outcomes] == ["kept", "done", "done"]
    replay(config, tmp_path / "whole", *bags)
    expect_same(tmp_path / "out", tmp_path / "whole", apart_from=["replay.json"])


def test_episodes_outside_the_bag_are_errors(config, bag, tmp_path):
    for options in (
        ["--start", "100"],
        ["--start", "0.5", "--end", "0.4"],
        ["--end", "1000000000"],
    ):
        ((outcome, failure),) = replay(config, tmp_path / "out", bag, expect=1, options=options)
        assert outcome == "failed" and "expected an episode within" in failure["error"]


def test_a_simulators_clock_sets_the_ticks_and_its_reset_begins_an_epoch(config, tmp_path):
    messages = []
    for loop in range(2):
        for k in range(100):
            received = T0 + (200 * loop + k) * 20 * MS
            simulated = 5 * MS + k * PERIOD
            messages.append(("/clock", received, clock(simulated)))
            messages.append(("/wrench", received + MS, wrench(simulated + MS, loop, k, 0)))
    bag = write_bag(tmp_path / "sim", messages)
    ((_, summary),) = replay(config, tmp_path / "out", bag)
    assert summary["simulated"] and summary["clock_jumps"] == 1
    got = tensors(tmp_path / "out/sim.mcap")
    # A reading at 5 ms past a tick serves it; the first only says where the ticks begin.
    assert [tensor.tick for tensor in got] == 2 * list(range(1, 100))
    values, (valid, target, _) = segment(got[50], "wrench")
    assert valid and target == 51 * PERIOD - LAG and values[0] == 0
    # Nothing of before the reset is in the ticks after it.
    for tensor in got[99:]:
        values, (valid, _, _) = segment(tensor, "wrench")
        assert not valid or values[0] == 1
    assert sum(segment(tensor, "wrench")[1][0] for tensor in got[99:]) > 90

    ((_, summary),) = replay(config, tmp_path / "receive", bag, options=["--time", "receive"])
    assert not summary["simulated"] and summary["clock_jumps"] == 0


def test_parts_and_lists_of_episodes(config, bag, messages, tmp_path):
    first = messages[0][1]
    options = ["--start", "0.5", "--end", "0.75"]
    ((_, summary),) = replay(config, tmp_path / "part", bag, options=options)
    got = tensors(tmp_path / "part/robot.mcap")
    ticks = range(-(-(first + 500 * MS) // PERIOD), (first + 750 * MS) // PERIOD + 1)
    assert [tensor.tick for tensor in got] == list(ticks)

    csv = tmp_path / "episodes.csv"
    csv.write_text("start,end,task\n0.5,0.75,open the door\n0.75,1,\n")
    outcomes = replay(config, tmp_path / "list", bag, options=["--episodes", csv])
    assert [(s["name"], s["task"]) for _, s in outcomes] == [
        ("robot-0000", "open the door"),
        ("robot-0001", None),
    ]
    assert raw(tmp_path / "list/robot-0000.mcap") == raw(tmp_path / "part/robot.mcap")
    # Which of two bags a line means must be said.
    other = shutil.copytree(bag, tmp_path / "other")
    said = replay(config, tmp_path / "two", bag, other, expect=1, options=["--episodes", csv])
    assert "expected the column 'bag' with a name in each line, as there are 2 bags" in said
    csv.write_text("start,end\n0.5,soon\n")
    said = replay(config, tmp_path / "list", bag, expect=1, options=["--episodes", csv])
    assert "episodes.csv:2: expected seconds" in said and "'soon'" in said
    csv.write_text("start,end,goal\n0.5,0.75,open the door\n")
    said = replay(config, tmp_path / "list", bag, expect=1, options=["--episodes", csv])
    assert (
        "episodes.csv:1: expected no columns but start, end, task and bag, each with its name, found 'goal'"
        in said
    )
    csv.write_text("start,end,bag\n0.5,0.75,robt\n")
    said = replay(config, tmp_path / "list", bag, expect=1, options=["--episodes", csv])
    assert "names the bag 'robt': expected one of those that are replayed" in said


def test_episodes_by_the_edges_of_a_topic(config, messages, tmp_path):
    first = messages[0][1]
    pressed = {100: False, 300: True, 350: True, 600: False, 700: False, 900: True}
    buttons = [
        ("/recording", first + ms * MS, made("std_msgs/msg/Bool", data=v))
        for ms, v in pressed.items()
    ]
    bag = write_bag(tmp_path / "robot", sorted([*messages, *buttons], key=lambda entry: entry[1]))
    options = ["--episodes-by", "/recording"]
    outcomes = replay(config, tmp_path / "edges", bag, options=options)
    assert [summary["name"] for _, summary in outcomes] == ["robot-0000", "robot-0001"]
    # The second has no end, so it ends with the bag.
    for k, (start, end) in enumerate([(300, 600), (900, (messages[-1][1] - first) / MS)]):
        part = ["--start", start / 1000, "--end", f"{end / 1000:.9f}"]
        replay(config, tmp_path / f"part{k}", bag, options=part)
        assert raw(tmp_path / f"edges/robot-{k:04}.mcap") == raw(tmp_path / f"part{k}/robot.mcap")

    never = write_bag(tmp_path / "never", [*messages, *buttons[:1]])
    without = write_bag(tmp_path / "without", messages)
    outcomes = replay(config, tmp_path / "some", never, without, bag, expect=1, options=options)
    assert [outcome for outcome, _ in outcomes] == ["failed", "failed", "done", "done"]
    assert "not zero, found none" in outcomes[0][1]["error"]
    assert "found /camera, /wrench" in outcomes[1][1]["error"]
    options = ["--episodes-by", "/wrench:header"]
    ((_, failed),) = replay(config, tmp_path / "wrong", bag, expect=1, options=options)
    assert "/wrench:header" in failed["error"]
