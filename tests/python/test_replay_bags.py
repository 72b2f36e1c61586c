"""`robocache replay` reads bags of several writers, and damaged ones."""

import json
import shutil
import sqlite3

import numpy as np
import pytest
import waiting
from bags import MS, T0, serialized, transforms, wrench, write_bag
from configs import configuration, counts
from configuration import program
from mcap.reader import make_reader
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from replays import files, raw, replay, tensors
from same_files import expect_same
from wrench_robot import (  # noqa: F401
    PERIOD,
    bag_fixture,
    config_fixture,
    messages_fixture,
    robot,
    segment,
)


def write_mcap(path, messages, schemas=True, **options):
    """By mcap's own writer; without definitions and without rosbag2's metadata."""
    with path.open("wb") as file:
        writer = McapWriter(file, **options)
        writer.start("", "a test")
        channels = {}
        for topic, received, message in messages:
            if topic not in channels:
                name = message.__msgtype__
                schema = writer.register_schema(name, "ros2msg", b"") if schemas else 0
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], received, serialized(message), received)
        writer.finish()


def test_bags_without_messages_and_topics_without_messages(config, tmp_path):
    wrenches = [entry for entry in robot(50) if entry[0] == "/wrench"]
    kind = "geometry_msgs/msg/WrenchStamped"
    empty = write_bag(tmp_path / "empty", [], topics=[("/wrench", kind)])
    ((_, failure),) = replay(config, tmp_path / "out", empty, expect=1)
    assert "expected a row of a stream, found none" in failure["error"]
    assert f"wrench (0 messages); the bag has /wrench ({kind})" in failure["error"]
    bags = [
        write_bag(tmp_path / "one", wrenches[:1]),
        write_bag(tmp_path / "half", wrenches, topics=[("/camera", "sensor_msgs/msg/Image")]),
        write_bag(tmp_path / "less", wrenches),
    ]
    summaries = [summary for _, summary in replay(config, tmp_path / "out", *bags)]
    assert summaries[0]["ticks"] == 0
    for summary in summaries[1:]:
        assert summary["ticks"] > 10 and summary["streams"]["camera"]["valid_share"] == 0
    assert [summary["missing"] for summary in summaries[1:]] == [[], ["/camera"]]


@pytest.mark.parametrize("form", ["mcap", "zarr", "rows"])
def test_a_configuration_that_fits_nothing_replaces_nothing(config, tmp_path, form):
    options = ["--format", form]
    bag = write_bag(tmp_path / "robot", robot(50))
    replay(config, tmp_path / "out", bag, options=options)
    before = files(tmp_path / "out")
    cloud = counts("cloud", "topic: /lidar", "f32", more="    t_base_sensor: tf\n")
    # Neither topics that the bag lacks, although it has the frames, nor messages that are all dropped.
    frames = ("/tf_static", T0, transforms((T0, "base_link", "lidar", 0.5)))
    dropped = [("/wrench", T0 + k * MS, wrench(0, 1, 2, 3)) for k in range(50)]
    for messages, text, found, reads in (
        ([frames, *robot(50)], configuration(cloud), "a topic of a stream", "/lidar (sensor_msgs"),
        (dropped, None, "a row of a stream", "wrench wrench (50 messages, 50 zero_stamp)"),
    ):
        shutil.rmtree(bag)
        write_bag(bag, messages)
        wrong = tmp_path / "wrong.yaml"
        wrong.write_text(text or config.read_text())
        ((outcome, failure),) = replay(
            wrong, tmp_path / "out", bag, options=[*options, "--replace"], expect=1
        )
        assert outcome == "failed" and f"expected {found}, found none" in failure["error"]
        assert reads in failure["error"] and "the bag has /" in failure["error"]
        expect_same(tmp_path / "out", before)


def test_check_compares_the_topics_and_types_with_a_bag(config, tmp_path):
    def check(text, *bags, expect=0, options=()):
        config.write_text(text)
        command = [program(), "check", config, "--bag", *bags, *options]
        done = waiting.run(command)
        assert done.returncode == expect, (done.stdout, done.stderr)
        return done.stderr if expect or "--json" not in options else json.loads(done.stdout)

    text, bag = config.read_text(), write_bag(tmp_path / "robot", robot(50))
    assert check(text, bag) == ""
    (warning,) = check(text.replace("/camera", "/eye"), bag, options=["--json"])["warnings"]
    assert warning.startswith("/eye: not in the bag, which has /camera (sensor_msgs/msg/Image)")
    said = check(
        text.replace("/camera", "/eye").replace("topic: wrench", "topic: arm"), bag, expect=1
    )
    assert (
        "expected a topic of a stream, found none" in said
        and "/eye (sensor_msgs/msg/Image)" in said
    )
    wrong = text.replace("WrenchStamped", "TwistStamped").replace(
        "topic: /camera", "topic: /wrench"
    )
    said = check(wrong, bag, expect=1)
    for stream, kind in (("wrench", "TwistStamped"), ("camera", "Image")):
        assert f"stream '{stream}': expected messages of " in said and kind in said
    moved = text.replace("/camera", "/eye")
    assert check(moved, bag, options=["--remap", "/eye:=/camera"]) == ""


def test_topics_and_types_that_do_not_fit_are_errors_and_a_remap_helps(config, bag, tmp_path):
    elsewhere = [(f"/arm{topic}", *rest) for topic, *rest in robot(50)]
    moved = write_bag(tmp_path / "moved", elsewhere)
    ((outcome, failure),) = replay(config, tmp_path / "out", moved, expect=1)
    assert outcome == "failed" and "/arm/wrench" in failure["error"]
    options = ["--remap", "wrench:=/arm/wrench", "--remap", "/camera:=/arm/camera"]
    ((_, summary),) = replay(config, tmp_path / "out", moved, options=options)
    assert summary["missing"] == [] and summary["ticks"] > 10

    options = ["--remap", "wrench:=/camera"]
    ((_, failure),) = replay(config, tmp_path / "other", bag, expect=1, options=options)
    assert "expected messages of geometry_msgs/msg/WrenchStamped on /camera" in failure["error"]
    said = replay(config, tmp_path / "other", tmp_path / "nowhere", expect=1)
    assert "nowhere" in said


def test_a_flipped_byte_in_a_chunk_is_found_and_the_rest_is_read(config, messages, tmp_path):
    path = tmp_path / "whole.mcap"
    write_mcap(path, messages, chunk_size=50_000, compression=CompressionType.NONE)
    with path.open("rb") as file:
        chunks = make_reader(file).get_summary().chunk_indexes
    assert len(chunks) > 3
    broken = bytearray(path.read_bytes())
    place = chunks[2].chunk_start_offset + chunks[2].chunk_length // 2
    broken[place] ^= 4
    (tmp_path / "broken.mcap").write_bytes(bytes(broken))
    cut = path.read_bytes()[: chunks[-2].chunk_start_offset + 200]
    (tmp_path / "cut.mcap").write_bytes(cut)

    bags = [tmp_path / f"{name}.mcap" for name in ("whole", "broken", "cut")]
    outcomes = dict(zip(("whole", "broken", "cut"), replay(config, tmp_path / "out", *bags)))
    received = {
        name: summary["inputs"]["wrench wrench"]["received"]
        for name, (_, summary) in outcomes.items()
    }
    assert received["whole"] == 500 and not outcomes["whole"][1]["problems"]
    for name in ("broken", "cut"):
        assert 0 < received[name] < 500 and outcomes[name][1]["problems"], name
    # The ticks before the damage are the same, and those long after it too.
    whole, broken = (tensors(tmp_path / f"out/{name}.mcap") for name in ("whole", "broken"))
    assert [tensor.tick for tensor in whole] == [tensor.tick for tensor in broken]
    same = [a.digest == b.digest for a, b in zip(whole, broken)]
    assert same[0] and same[-1] and not all(same)


def test_a_bag_of_humble_and_mcap_without_schemas(config, bag, messages, tmp_path):
    """Neither has definitions; the second does not even say the types."""
    folder = tmp_path / "humble"
    folder.mkdir()
    with sqlite3.connect(folder / "humble_0.db3") as database:
        database.executescript(
            """
            CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
            CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL);
            CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
                serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);
            CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL,
                timestamp INTEGER NOT NULL, data BLOB NOT NULL);
            CREATE INDEX timestamp_idx ON messages (timestamp ASC);
            INSERT INTO schema VALUES (3, 'humble');
            """
        )
        topics = {topic: message.__msgtype__ for topic, _, message in messages}
        ids = {topic: number for number, topic in enumerate(topics, 1)}
        rows = [(ids[name], name, kind, "cdr", "") for name, kind in topics.items()]
        database.executemany("INSERT INTO topics VALUES (?, ?, ?, ?, ?)", rows)
        rows = [(ids[topic], ns, serialized(message)) for topic, ns, message in messages]
        database.executemany(
            "INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)", rows
        )
    (folder / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  version: 5\n  storage_identifier: sqlite3\n"
        "  relative_file_paths:\n    - humble_0.db3\n  compression_format: ''\n  compression_mode: ''\n"
    )
    write_mcap(tmp_path / "bare.mcap", messages, schemas=False)
    outcomes = replay(config, tmp_path / "out", bag, folder, tmp_path / "bare.mcap")
    assert [s["untyped"] for _, s in outcomes] == [[], [], ["/wrench", "/camera"]]
    expected = raw(tmp_path / "out/robot.mcap")
    for name in ("humble", "bare"):
        assert raw(tmp_path / f"out/{name}.mcap") == expected, name


def test_other_topics_and_the_order_of_writing_change_nothing(config, bag, messages, tmp_path):
    """Unknown types are beside the others; log times go back and forth."""
    path = tmp_path / "mixed.mcap"
    shuffled = [messages[at] for at in np.random.default_rng(5).permutation(len(messages))]
    with path.open("wb") as file:
        writer = McapWriter(file, chunk_size=20_000)
        writer.start("ros2", "a test")
        schemas = [
            writer.register_schema("odd_msgs/msg/Odd", "ros2msg", b"no definition at all {"),
            writer.register_schema("odd/Proto", "protobuf", bytes(range(200))),
        ]
        others = [
            writer.register_channel(f"/odd{at}", ("cdr", "protobuf")[at], schema)
            for at, schema in enumerate(schemas)
        ]
        channels = {}
        for number, (topic, received, message) in enumerate(shuffled):
            if topic not in channels:
                schema = writer.register_schema(message.__msgtype__, "ros2msg", b"")
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], received, serialized(message), received)
            writer.add_message(others[number % 2], received, bytes(number % 50), received)
        writer.finish()
    replay(config, tmp_path / "out", bag, path)
    assert raw(tmp_path / "out/mixed.mcap") == raw(tmp_path / "out/robot.mcap")


def test_a_recorders_clock_that_was_set_back_is_told(config, messages, tmp_path):
    middle = len(messages) // 2
    back = [(topic, at - 300 * MS, message) for topic, at, message in messages[middle:]]
    for storage in ("mcap", "sqlite3"):
        bag = write_bag(tmp_path / storage, [*messages[:middle], *back], storage)
        ((outcome, summary),) = replay(config, tmp_path / "out", bag)
        told = [problem for problem in summary["problems"] if "may have been set back" in problem]
        # One for each topic.
        assert outcome == "done" and len(told) == len(summary["problems"]) == 2


def test_files_with_numbers_are_parts_if_each_continues_the_one_before(config, messages, tmp_path):
    whole = write_bag(tmp_path / "whole", messages)
    middle = len(messages) // 2
    replay(config, tmp_path / "all", whole)
    for name, later in [("split", 0), ("takes", 5_000 * MS)]:
        folder = tmp_path / name
        folder.mkdir()
        moved = [(topic, at + later, message) for topic, at, message in messages[middle:]]
        for number, part in enumerate([messages[:middle], moved]):
            bag = write_bag(tmp_path / f"{name}{number}", part)
            (file,) = bag.glob("*.mcap")
            file.rename(folder / f"x_{number}.mcap")
    replay(config, tmp_path / "out", tmp_path / "split", tmp_path / "takes")
    names = sorted(path.name for path in (tmp_path / "out").glob("*.mcap"))
    assert names == ["split.mcap", "x_0.mcap", "x_1.mcap"]
    assert raw(tmp_path / "out/split.mcap") == raw(tmp_path / "all/whole.mcap")


def test_definitions_come_from_the_bag(tmp_path):
    text = "std_msgs/Header header\nfloat64[3] grip\nGauge gauge\n"
    parts = (
        "=" * 80 + "\nMSG: robot_msgs/Gauge\nfloat32 bar\n" + "=" * 80 + "\nMSG: std_msgs/Header\n"
        "builtin_interfaces/Time stamp\nstring frame_id\n" + "=" * 80 + "\n"
        "MSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
    )
    path = tmp_path / "grip.mcap"
    from mcap_ros2.writer import Writer as Ros2Writer

    with path.open("wb") as file:
        writer = Ros2Writer(file)
        schema = writer.register_msgdef("robot_msgs/msg/Grip", text + parts)
        for k in range(50):
            ns = T0 + 4 * MS * k
            body = {
                "header": {"stamp": {"sec": ns // 10**9, "nanosec": ns % 10**9}, "frame_id": ""},
                "grip": [k, 2 * k, 3 * k],
                "gauge": {"bar": k / 2},
            }
            writer.write_message("/grip", schema, body, ns, ns)
        writer.finish()
    config = tmp_path / "grip.yaml"
    config.write_text(
        "rate_hz: 100\nstreams:\n  grip:\n    type: robot_msgs/msg/Grip\n    topic: /grip\n"
        "    select: ['grip[1]', gauge.bar]\n    max_age_ms: 50\n    strategy: hold\n    dtype: f32\n"
    )
    replay(config, tmp_path / "out", path)
    got = tensors(tmp_path / "out/grip.mcap")
    assert len(got) == 20
    for tensor in got:
        k = (tensor.tick * PERIOD - T0) // (4 * MS)
        values, (valid, _, _) = segment(tensor, "grip")
        assert valid and values.tolist() == [2 * k, k / 2]
