"""`robocache inspect`: what it says of bags of independent writers, against NumPy."""

import json
import re

import configuration
import numpy as np
import pytest
import waiting
from bags import MS, T0, clock, transforms, wrench, write_bag
from whole_robot import everything


def inspect(*bags, expect=0, options=("--json",)):
    command = [configuration.program(), "inspect", *bags, *options]
    done = waiting.run(command)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in options else done.stdout + done.stderr


def topic(found, name):
    (one,) = [topic for topic in found["topics"] if topic["name"] == name]
    return one


def notes(found, name):
    return [note for note in found["notes"] if note.startswith(name)]


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_rates_delays_and_gaps_are_those_of_numpy(tmp_path, storage):
    random = np.random.default_rng(3)
    stamps = T0 + np.cumsum(random.normal(10 * MS, MS, 2000).astype(int))
    stamps[700:] += 400 * MS
    stamps[1500:] += 90 * MS
    received = stamps + random.gamma(2, 3 * MS, 2000).astype(int)
    order = np.argsort(received, kind="stable")
    messages = [("/w", int(received[k]), wrench(int(stamps[k]), 1, 2, 3)) for k in order]
    (found,) = inspect(write_bag(tmp_path / "bag", messages, storage=storage))
    one = topic(found, "/w")
    assert one["messages"] == 2000 and one["stamps"] == {"headers": 2000, "zero": 0, "bad": 0}

    def close(told, values):
        shares = {"p1_ns": 0.01, "p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99, "p999_ns": 0.999}
        for name, share in shares.items():
            exact = np.quantile(values, share, method="inverted_cdf")
            assert abs(told[name] - exact) <= abs(exact) / 1000 + 1, name
        assert (told["min_ns"], told["max_ns"]) == (values.min(), values.max())
        assert abs(told["mean_ns"] - values.mean()) <= 1 and told["count"] == len(values)

    close(one["delay"], received - stamps)
    steps = np.diff(stamps[order])
    ahead = steps[steps > 0]
    close(one["stamped"]["intervals"], ahead)
    arrivals = np.diff(np.sort(received))
    close(one["received"]["intervals"], arrivals[arrivals > 0])
    assert one["stamped"]["backwards"] == (steps < 0).sum() > 0
    assert one["stamped"]["furthest_back_ns"] == -steps.min()
    assert one["stamped"]["gaps"] == (ahead > 2.5 * np.median(ahead)).sum()
    longest = [gap["length_ns"] for gap in one["stamped"]["longest"]]
    assert longest[:2] == sorted(ahead, reverse=True)[:2]
    assert sum(one["timeline"]) == sum(count for _, count in one["delays"]) == 2000
    bins = (received - received.min()) * 240 // np.ptp(received)
    assert one["timeline"] == np.bincount(np.minimum(bins, 239), minlength=240).tolist()


def test_stamps_that_are_not_set_repeat_or_drift_are_told(tmp_path):
    messages = []
    for k in range(3000):
        ns = T0 + 10 * MS * k
        messages.append(("/zero", ns, wrench(0 if k % 3 == 0 else ns, 1, 2, 3)))
        messages.append(("/repeats", ns, wrench(ns - ns % (20 * MS), 1, 2, 3)))
        # A clock that is 100 ppm slow, and an offset.
        messages.append(("/drifts", ns + 50 * MS, wrench(ns - (ns - T0) // 10000, 1, 2, 3)))
        messages.append(("/elsewhere", ns, wrench(10 * MS * k + 1, 1, 2, 3)))
    (found,) = inspect(write_bag(tmp_path / "bag", sorted(messages, key=lambda m: m[1])))
    assert topic(found, "/zero")["stamps"]["zero"] == 1000 and "receive" in notes(found, "/zero")[0]
    assert topic(found, "/repeats")["stamped"]["repeated"] == 1500
    assert abs(topic(found, "/drifts")["drift_ppm"] - 100) < 3
    assert topic(found, "/repeats")["drift_ppm"] is None
    assert any("another clock" in note for note in notes(found, "/elsewhere"))


def test_clocks_that_are_set_and_reset_are_told(tmp_path):
    messages = []
    for k in range(400):
        ns = T0 + 10 * MS * k
        recorder = ns - (3000 * MS if k >= 200 else 0)
        messages.append(("/w", recorder + MS, wrench(ns, 1, 2, 3)))
    (found,) = inspect(write_bag(tmp_path / "back", messages))
    (event,) = found["recorder"]["events"]
    assert event == {"set_back": {"at_ns": T0 + 1991 * MS, "by_ns": 2990 * MS}}
    assert topic(found, "/w")["stamped"]["backwards"] == 0, "the order is that of writing"

    messages = []
    for k in range(200):
        received, simulated = T0 + 20 * MS * k, 10 * MS * (k % 120) + MS
        messages.append(("/clock", received, clock(simulated)))
        messages.append(("/w", received + MS, wrench(simulated - 4 * MS, 1, 2, 3)))
    (found,) = inspect(write_bag(tmp_path / "sim", messages))
    readings = found["clock"]["readings"]
    assert readings["backwards"] == 1 and readings["furthest_back_ns"] == 1190 * MS
    assert abs(found["clock"]["speed"] - 198 * 10 / (199 * 20)) < 1e-9
    delay = topic(found, "/w")["delay"]
    assert delay["min_ns"] == delay["max_ns"] == 4 * MS, "on the simulator's clock"


def test_every_type_is_looked_into(tmp_path):
    bag = write_bag(tmp_path / "bag", everything(2), topics=[("/none", "sensor_msgs/msg/Image")])
    (found,) = inspect(bag)
    content = {topic["name"]: topic["content"] for topic in found["topics"]}
    (form,) = content["/camera/jpeg"]["images"]["forms"]
    assert (form["width"], form["height"], form["is_png"]) == (64, 48, False)
    (form,) = content["/depth/compressed"]["images"]["forms"]
    assert (form["width"], form["height"], form["is_png"]) == (64, 48, True)
    points = content["/points"]["clouds"]
    assert [field["name"] for field in points["fields"]] == [
        "x",
        "y",
        "z",
        "intensity",
        "ring",
        "t",
    ]
    assert points["time"]["unit_s"] == 1e-9 and not points["time"]["is_absolute"]
    for (low, high), (least, most) in zip(points["reach_m"], [(-9, 9), (-9, 9), (-0.5, 2)]):
        assert least <= low < least + 0.5 and most - 0.5 < high <= most
    sets = content["/joint_states"]["joints"]["sets"]
    grip, arm = sorted(sets, key=lambda one: len(one["names"]))
    assert arm["names"] == ["arm_1", "arm_2", "arm_3"] and grip["names"] == ["grip"]
    assert arm["complete"][:3] == [200, 200, 0] and grip["complete"][:3] == [100, 0, 0]
    plan = content["/plan"]["joints"]
    assert plan["most_points"] == 12 and plan["horizon_ns"] == 550 * MS
    assert content["/gyro"]["imu"]["without_orientation"] == 400
    assert content["/imu"]["imu"]["without_orientation"] == 0
    paths = {leaf["path"]: leaf for leaf in content["/battery"]["numbers"]["paths"]}
    assert paths["charge"]["non_finite"] == 10 and paths["voltage"]["range"] == pytest.approx(
        [24.0, 25.8]
    )
    assert content["/camera/camera_info"]["camera"]["is_distorted"]
    links = {link["child"]: link for link in found["frames"]["links"]}
    assert links["lidar"]["parents"] == ["base_link"] and links["lidar"]["is_fixed"]
    assert not links["base_link"]["is_fixed"] and found["frames"]["roots"] == ["odom"]
    assert topic(found, "/none")["messages"] == 0
    table = inspect(bag, options=())
    assert "sensor_msgs/msg/PointCloud2" in table and "several" not in table
    assert "arm_1 arm_2 arm_3" in table and "odom -> base_link" in table


def test_damage_malformed_messages_and_strange_trees_are_told(tmp_path):
    messages = [("/w", T0 + k * MS, wrench(T0, 1, 2, 3)) for k in range(10)]
    bag = write_bag(tmp_path / "bag", messages)
    (file,) = bag.glob("*.mcap")
    (tmp_path / "cut.mcap").write_bytes(file.read_bytes()[:-400])
    tree = transforms((T0, "a", "c", 1), (T0, "b", "c", 1))
    strange = write_bag(tmp_path / "strange", [("/tf", T0, tree)])
    found = inspect(tmp_path / "cut.mcap", strange, tmp_path / "bag")
    cut, strange, whole = found
    assert cut["problems"] and not whole["problems"]
    assert strange["notes"] == [
        "the frame c has several parents: a, b",
        "the frames form several trees, with the roots a, b",
    ]
    assert "nowhere" in inspect(tmp_path / "nowhere", expect=1, options=())
    (tmp_path / "bad.mcap").write_bytes(b"no bag")
    found = inspect(tmp_path / "bad.mcap", tmp_path / "bag", expect=1)
    assert len(found) == 1 and found[0]["messages"] == 10


def starter(bag, folder, options=()):
    """Writes a configuration for a bag, checks it and replays the bag with it. Returns the text and the summary."""
    config = folder / "robot.yaml"
    inspect(bag, options=("--write-config", config))
    program = configuration.program()
    command = [program, "check", config, "--bag", bag]
    done = waiting.run(command)
    assert done.returncode == 0, done.stderr
    command = [program, "replay", bag, "--config", config, "--out", folder / "out", "--json"]
    command += options
    done = waiting.run(command)
    assert done.returncode == 0, done.stderr
    ((outcome, summary),) = json.loads(done.stdout)[0].items()
    assert outcome == "done"
    return config.read_text(), summary


#: Topics without a stream, by a word of the reason.
LEFT_OUT = {
    "/camera/camera_info": "undistort",
    "/goal": "only 1 messages",
    "/tf": "tree of frames",
    "/tf_static": "tree of frames",
    "/words": "no number",
}


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_starting_configuration_is_valid_and_replays_every_kind_of_input(tmp_path, storage):
    messages = everything(4)
    bag = write_bag(tmp_path / "bag", messages, storage=storage)
    text, summary = starter(bag, tmp_path)
    topics = {topic for topic, _, _ in messages}
    inputs = {one["topic"]: one for one in summary["inputs"].values()}
    assert topics - set(inputs) <= set(LEFT_OUT) and not summary["missing"]
    left_out = text[text.index("# Left out:") :]
    for name, why in LEFT_OUT.items():
        (line,) = [line for line in left_out.splitlines() if line.startswith(f"#   {name}: ")]
        assert why in line
    assert summary["ticks"] > 70, "at 20 Hz, the rate of the cameras"
    for name, stream in summary["streams"].items():
        # What the first ticks lack is before the bag began.
        assert stream["valid_share"] > 0.85, (name, stream)
        assert "gap" not in stream["invalid"], (name, stream)
    for name, one in inputs.items():
        # The frames of a cloud must be there when it is.
        assert sum(one["dropped"].values()) <= 2, (name, one)
    assert "encoding_8uc: mono8" in text and "depth: {max_m: 10}" in text
    assert "undistort: {camera_info: /camera/camera_info}" in text
    assert "# deskew: {fixed_frame: odom, time_field: t, time_unit: ns, span_ms: [-5, 95]}" in text
    assert "groups:" in text and "t_base_sensor: tf" in text
    assert "fields: [angular_velocity, linear_acceleration]" in text
    assert "- data[0:7]" in text and "- linear" in text and "charge (NaN or infinite)" in text


def test_a_starting_configuration_follows_what_is_wrong_with_a_bag(tmp_path):
    messages = []
    for k in range(500):
        ns = T0 + 10 * MS * k
        messages.append(("/late", ns + 300 * MS, wrench(ns, k, 2, 3)))
        messages.append(("/ahead", ns, wrench(ns + 300 * MS, k, 2, 3)))
        messages.append(("/unset", ns, wrench(0, k, 2, 3)))
        messages.append(("/elsewhere", ns, wrench(10 * MS * k + 1, k, 2, 3)))
        if k < 400:
            messages.append(("/very_late", ns + 900 * MS, wrench(ns, k, 2, 3)))
    bag = write_bag(tmp_path / "bag", sorted(messages, key=lambda m: m[1]))
    text, summary = starter(bag, tmp_path)
    found = inspect(bag)[0]
    assert "timeline: receive # stamps are not set" in text
    assert "timeline: receive # its stamps are of another clock" in text
    # The clock of a driver is ahead: its values would be dropped, or count as fresh.
    dropped = {one["topic"]: one["dropped"] for one in summary["inputs"].values()}
    (offset,) = re.findall(r"stamp_offset_ms: (-\d+) # its clock is ahead", text)
    assert -310 < int(offset) <= -300 and not dropped["/ahead"]
    assert f"`stamp_offset_ms: {offset}` makes up for it" in " ".join(notes(found, "/ahead"))
    assert "\nlag_ms: 310\n" in text and "\n    lag_ms: 910\n" in text
    shares = {name: stream["valid_share"] for name, stream in summary["streams"].items()}
    assert (
        min(shares[name] for name in ("late", "ahead", "unset", "elsewhere")) > 0.9
        and shares["very_late"] > 0.75
    )
    inspect(bag, options=("--write-config", tmp_path / "robot.yaml"), expect=1)
    assert (tmp_path / "robot.yaml").read_text() == text


def test_a_starting_configuration_needs_one_bag_with_a_stream(tmp_path):
    one = write_bag(tmp_path / "one", [("/w", T0, wrench(T0, 1, 2, 3))])
    said = inspect(one, options=("--write-config", tmp_path / "robot.yaml"), expect=1)
    assert "no topic can become a stream" in said and "/w: only 1 messages" in said
    two = write_bag(tmp_path / "two", [("/w", T0, wrench(T0, 1, 2, 3))])
    said = inspect(one, two, options=("--write-config", tmp_path / "robot.yaml"), expect=1)
    assert "expected one bag" in said and not (tmp_path / "robot.yaml").exists()


def test_the_report_is_one_page_without_a_network_or_a_script(tmp_path):
    messages = [m for m in everything(2) if m[0] != "/imu" or not 500 * MS < m[1] - T0 < 900 * MS]
    bag = write_bag(tmp_path / "bag", messages)
    inspect(bag, options=("--html", tmp_path / "report.html"))
    html = (tmp_path / "report.html").read_text()
    assert "<script" not in html and "src=" not in html and "@import" not in html
    for title in ("Notes", "Topics", "Timeline", "Delays and intervals", "Contents", "Frames"):
        assert f">{title}<" in html
    assert "delay of /imu" in html and "interval of /wrench" in html and "1 gap of" in html
    other = write_bag(tmp_path / "other", messages[:50])
    both = inspect(bag, other, options=("--html", tmp_path / "report.html"))
    assert both.count("topic  ") == 2 and f"{bag}: Topics" in (tmp_path / "report.html").read_text()
    inspect(bag, options=("--html", tmp_path / "no" / "folder.html"), expect=1)


def test_a_simulators_bag_without_a_clock_is_told_and_its_configuration_says_how_to_replay_it(
    tmp_path,
):
    messages = []
    for k in range(600):
        ns = 10 * MS * (k % 400) + MS
        received = T0 + 20 * MS * k
        messages.append(("/w", received, wrench(ns, k, 2, 3)))
        if k % 3 == 0:
            # 30 ms behind on the simulator's clock.
            messages.append(("/slow", received + 60 * MS, wrench(ns, k, 2, 3)))
    messages = sorted(messages, key=lambda entry: entry[1])
    bag = write_bag(tmp_path / "bag", messages)
    (found,) = inspect(bag)
    assert found["lacks_clock"] and found["clock"] is None
    (note,) = [note for note in found["notes"] if "--time header" in note]
    assert "no /clock" in note and not any("receive" in note for note in found["notes"])
    assert 15 * MS < topic(found, "/slow")["delay"]["p50_ns"] < 40 * MS
    assert topic(found, "/w")["delay"]["p50_ns"] == 0
    text, summary = starter(bag, tmp_path, options=["--time", "header"])
    assert "--time header" in text and "timeline: receive" not in text
    assert summary["clock_jumps"] == 1 and "\nlag_ms: 50\n" in text, text
    assert min(stream["valid_share"] for stream in summary["streams"].values()) > 0.9

    # With /clock, nothing of that.
    clocks = [("/clock", at, clock(m.header.stamp.nanosec)) for name, at, m in messages[:99]]
    (found,) = inspect(write_bag(tmp_path / "clock", clocks + messages[:99]))
    assert not found["lacks_clock"] and not any("--time" in note for note in found["notes"])
    # One topic with the recorder's time: then the others are of another clock.
    messages += [("/wall", at, wrench(at, 1, 2, 3)) for _, at, _ in messages]
    (found,) = inspect(write_bag(tmp_path / "mixed", sorted(messages, key=lambda m: m[1])))
    assert not found["lacks_clock"]
    assert any("timeline: receive" in note for note in notes(found, "/w"))


def test_events_of_the_nodes_own_recording_have_no_rate_and_no_gaps(tmp_path):
    from mcap.writer import Writer

    path = tmp_path / "recording.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2", "a test")
        kind = "robocache_ros/msg/RecordingEvent"
        channel = writer.register_channel("/e", "cdr", writer.register_schema(kind, "ros2msg", b""))
        for k in range(400):
            # A burst of four events for each tick.
            at = T0 + 10 * MS * (k // 4) + 5000 * (k % 4)
            writer.add_message(channel, at, b"\x00\x01\x00\x00" + bytes(60), at)
        writer.finish()
    (found,) = inspect(path)
    one = topic(found, "/e")
    assert one["messages"] == 400 and one["received"]["rate_hz"] is None
    assert one["received"]["gaps"] == 0 and notes(found, "/e") == []
