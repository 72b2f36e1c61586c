"""Commands of bags that no node recorded: `robocache replay` makes them of the chunks. Other readers read the results."""

import os
import re
import sys
from pathlib import Path

import bags
import configuration
import numpy as np
import pytest
import replays
import waiting
import yaml
import zarr
from bags import MS, T0
from mcap_ros2.reader import read_ros2_messages
from rosbags.typesys import get_types_from_msg

CHUNK = "robocache_ros/msg/ActionChunk"
DEFINITION = Path(__file__).parents[2] / "msg" / "ActionChunk.msg"
ROWS, STEP, PERIOD = 20, 20 * MS, 4 * MS
#: The joints as they are measured, all the time.
MEASURED = [0.25, -0.5]
TYPES = {
    "std_msgs/msg/Float64MultiArray": {},
    "sensor_msgs/msg/JointState": {},
    "trajectory_msgs/msg/JointTrajectory": {"one_point": True},
}


def config(folder, kind="std_msgs/msg/Float64MultiArray"):
    path = folder / "robot.yaml"
    keys = "".join(f", {key}: {str(value).lower()}" for key, value in TYPES[kind].items())
    path.write_text(f"""
rate_hz: 100
streams:
  joints: {{type: sensor_msgs/JointState, topic: /joints, joints: [b, a], max_age_ms: 50, lag_ms: 20}}
commands:
  rate_hz: 250
  groups:
    arm:
      joints: [a, b]
      rows: {{steps: {ROWS}, step_ms: 20}}
      start_from: joints
      watchdog_ms: 1000
      blend_ms: 0
      limits: none
      on_stall: hold
      on_end: hold
      output: {{topic: /arm/commands, type: {kind}{keys}}}
""")
    return path


def chunk(answered, sequence, first):
    """A chunk for the tensor at this instant [ns], whose rows rise from `first`."""
    if CHUNK not in bags.STORE.types:
        bags.STORE.register(get_types_from_msg(DEFINITION.read_text(), CHUNK))
    row = np.arange(ROWS, dtype=np.float32)
    values = np.stack([first + row / 8, first - row / 4], axis=1)
    message = bags.empty(
        CHUNK,
        run=7,
        epoch=9,
        stamp=bags.header(answered).stamp,
        tick=answered // (10 * MS),
        sequence=sequence,
        group="arm",
        names=["a", "b"],
        rows=ROWS,
        values=values.reshape(-1),
    )
    return message, values


def bag(folder):
    """A bag with chunks, and what its commands are at their instants."""
    messages = [
        ("/joints", T0 + at * MS, bags.joints(T0 + at * MS, a=MEASURED[0], b=MEASURED[1]))
        for at in range(0, 1000, 10)
    ]
    plans = []
    for number, (answered, received, first) in enumerate(
        [(300, 351, 1.0), (305, 357, 9.0), (500, 561, 2.0)]
    ):
        message, values = chunk(T0 + answered * MS, number + 1, first)
        messages.append(("/chunks", T0 + received * MS, message))
        plans.append((T0 + answered * MS, values))
    # The second one answers an instant that is none of a tick.
    del plans[1]
    expected = {}
    for at in range(T0 + 352 * MS, T0 + 991 * MS, PERIOD):
        begin, values = plans[0] if at < T0 + 564 * MS else plans[1]
        rows = (at - begin) / STEP
        expected[at] = [np.interp(rows, np.arange(ROWS), values[:, joint]) for joint in range(2)]
    # They begin at the measured values, and nothing but the plan counts from the next tick on.
    expected[T0 + 352 * MS] = MEASURED
    path = bags.write_bag(folder / "bag", sorted(messages, key=lambda entry: entry[1]))
    return path, expected


def values_of(message):
    """The values of a command."""
    kind = type(message).__name__
    if kind == "Float64MultiArray":
        return list(message.data)
    if kind == "JointState":
        assert list(message.name) == ["a", "b"]
        return list(message.position)
    (point,) = message.points
    assert list(message.joint_names) == ["a", "b"] and message.header.stamp.sec == 0
    assert point.time_from_start.nanosec == PERIOD
    return list(point.positions)


@pytest.mark.parametrize("kind", TYPES)
def test_a_file_has_the_messages_of_commands_and_the_chunks(tmp_path, kind):
    path, expected = bag(tmp_path)
    ((outcome, summary),) = replays.replay(config(tmp_path, kind), tmp_path / "out", path)
    assert outcome == "done"
    commands = summary["commands"]
    assert commands["written"] and not commands["of_recording"]
    arm = commands["groups"]["arm"]
    assert arm["sent"] == len(expected) and arm["chunks"] == 2
    assert arm["refused"] == {"not_served": 1}
    result = str(tmp_path / "out" / "bag.mcap")
    read = list(read_ros2_messages(result, topics=["/arm/commands"]))
    assert [it.publish_time_ns for it in read] == list(expected)
    assert {it.schema.name for it in read} == {kind}
    # Its definition is that of ROS.
    types = get_types_from_msg(read[0].schema.data.decode(), kind)
    assert kind in types
    for name, (_, members) in types.items():
        assert members == bags.STORE.fielddefs[name][1], name
    found = [values_of(it.ros_msg) for it in read]
    np.testing.assert_allclose(found, list(expected.values()), rtol=0, atol=1e-12)
    chunks = list(read_ros2_messages(result, topics=["/chunks"]))
    assert [it.ros_msg.sequence for it in chunks] == [1, 2, 3]
    assert [it.publish_time_ns for it in chunks] == [T0 + at * MS for at in (352, 360, 564)]


@pytest.mark.parametrize(
    ("form", "name"), [("zarr", "tensors.zarr"), ("rows", "rows.zarr")], ids=["zarr", "rows"]
)
def test_a_store_has_the_arrays_of_commands_and_chunks(tmp_path, form, name):
    path, expected = bag(tmp_path)
    replays.replay(config(tmp_path), tmp_path / "out", path, options=["--format", form])
    store = zarr.open_group(tmp_path / "out" / name, mode="r")
    commands, chunks = store["commands/arm"], store["chunks/arm"]
    sent = commands["sent"][:]
    stamps = commands["stamp_ns"][:]
    assert list(stamps[sent]) == list(expected)
    assert np.all(np.diff(stamps) == PERIOD) and list(commands["tick"][:] * PERIOD) == list(stamps)
    values = commands["values"][:]
    assert values.dtype == np.float64 and np.isnan(values[~sent]).all()
    np.testing.assert_allclose(values[sent], list(expected.values()), rtol=0, atol=1e-12)
    about = commands["values"].attrs["group"]
    assert about["joints"] == ["a", "b"] and about["interface"] == "position"
    # Which chunk counts: none, the first, and the third.
    at = dict(zip(stamps, commands["chunk"][:]))
    assert [at[T0 + ms * MS] for ms in (348, 352, 560, 564)] == [-1, 0, 0, 2]
    stages = commands["stage"].attrs["stages"]
    now = dict(zip(stamps, (stages[number] for number in commands["stage"][:])))
    words = {348: "waiting", 352: "following", 880: "following", 884: "ended", 988: "ended"}
    assert {ms: now[T0 + ms * MS] for ms in words} == words
    assert list(stamps[commands["turns"][:]]) == [T0 + ms * MS for ms in (352, 564, 884)]
    assert list(chunks["number"][:]) == [0, 1, 2] and list(chunks["sequence"][:]) == [1, 2, 3]
    reasons = chunks["refused"].attrs["reasons"]
    assert [reasons[number] for number in chunks["refused"][:]] == ["", "not_served", ""]
    assert list(chunks["found_ns"][:]) == [T0 + ms * MS for ms in (352, 360, 564)]
    # Of the first chunk the rows at 300, 320 and 340 ms are past; of the third those at 500 to 560 ms.
    assert list(chunks["rows_late"][:]) == [3, 0, 4]
    plan, given = chunks["plan"][:], chunks["values"][:]
    assert np.array_equal(plan[0], given[0]) and np.isnan(plan[1]).all()
    assert list(given[1, 0]) == [9.0, 9.0]
    offsets = chunks["plan"].attrs["group"]["offsets_ns"]
    assert offsets == [row * STEP for row in range(ROWS)]
    assert list(commands["episode_ends"][:]) == [len(stamps)]


def test_commands_need_no_tensor_of_the_format(tmp_path):
    """The same commands are in each format, whichever ticks it has."""
    path, _ = bag(tmp_path)
    found = []
    for form, name in (("zarr", "tensors.zarr"), ("rows", "rows.zarr")):
        replays.replay(config(tmp_path), tmp_path / form, path, options=["--format", form])
        store = zarr.open_group(tmp_path / form / name, mode="r")
        found.append(
            {key: store["commands/arm"][key][:].tobytes() for key in store["commands/arm"]}
        )
    assert found[0] == found[1]


def test_rerun_has_chunks_commands_seams_and_late_rows_of_each_joint(tmp_path):
    pytest.importorskip("rerun", reason="rerun-sdk is an optional companion")
    path, expected = bag(tmp_path)
    out = tmp_path / "out"
    replays.replay(config(tmp_path), out, path, options=["--format", "zarr"])
    recording = tmp_path / "one.rrd"
    command = [configuration.program(), "view", out, "--out", tmp_path / "x.html"]
    env = {**os.environ, "PYTHON": sys.executable}
    waiting.run([*command, "--rerun", recording], check=True, env=env)
    page = (tmp_path / "x.html").read_text()
    assert "Commands of arm" in page and f"{len(expected)} commands, of 2 chunks" in page
    rerun = [sys.executable, "-m", "rerun", "rrd"]
    waiting.run([*rerun, "verify", recording], check=True)
    done = waiting.run([*rerun, "print", recording], check=True)
    rows = {}
    for count, entity in re.findall(r"with (\d+) rows \([^)]*\) - (\S+) ", done.stdout):
        rows[entity] = rows.get(entity, 0) + int(count)
    for joint in "ab":
        of = f"/bag/commands/arm/{joint}"
        assert rows[f"{of}/command"] == len(expected)
        # Beside the rows, each has the row of its style.
        assert rows[f"{of}/chunks_0"] == 1 + ROWS - 3
        assert rows[f"{of}/chunks_1"] == 1 + ROWS - 4
        assert rows[f"{of}/late"] == 1 + 7
        assert rows[f"{of}/seams"] == 1 + 3
    assert rows["/bag/commands/arm/refused"] == 1
    # Waiting, following, ended.
    assert rows["/bag/commands/arm/stage"] == 3


def test_a_silence_is_a_gap_in_rerun(tmp_path):
    pytest.importorskip("rerun", reason="rerun-sdk is an optional companion")
    path, _ = bag(tmp_path)
    settings = config(tmp_path)
    settings.write_text(settings.read_text().replace("on_end: hold", "on_end: silence"))
    out, recording = tmp_path / "out", tmp_path / "one.rrd"
    replays.replay(settings, out, path, options=["--format", "zarr"])
    command = [configuration.program(), "view", out, "--out", tmp_path / "x.html"]
    env = {**os.environ, "PYTHON": sys.executable}
    waiting.run([*command, "--rerun", recording], check=True, env=env)
    done = waiting.run([sys.executable, "-m", "rerun", "rrd", "print", recording], check=True)
    # After the last row of the second plan no command is sent.
    assert done.stdout.count("Clear") == len(MEASURED)


def test_a_replay_into_python_and_a_lerobot_dataset_have_no_commands_and_say_so(tmp_path):
    pytest.importorskip("robocache._native", reason="there is no compiled part")
    import robocache

    path, _ = bag(tmp_path)
    (episode,) = robocache.replay(path, config(tmp_path), backend="cpu")
    assert len(list(episode)) > 90
    commands = episode.summary["commands"]
    assert not commands["written"] and commands["ticks"] == 0
    pytest.importorskip("pyarrow", exc_type=ImportError)
    from robocache.lerobot import to_lerobot

    settings = yaml.safe_load(config(tmp_path).read_text())
    settings["streams"]["goal"] = dict(settings["streams"]["joints"])
    path_of_settings = tmp_path / "with_goal.yaml"
    path_of_settings.write_text(yaml.safe_dump(settings))
    with pytest.warns(RuntimeWarning, match="bag: its commands are left out"):
        to_lerobot(
            [path], path_of_settings, tmp_path / "dataset", action=["goal"], keep_invalid=True
        )
