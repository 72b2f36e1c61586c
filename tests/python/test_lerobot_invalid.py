"""`robocache to-lerobot`: invalid values are left out of the dataset, and the command says so."""

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
for needed in ("av", "mcap", "pyarrow", "rosbags", "zarr"):
    pytest.importorskip(needed, exc_type=ImportError)
import lerobot_files  # noqa: E402
import pyarrow as pa  # noqa: E402 (what is missing is said first)
import pyarrow.parquet as pq  # noqa: E402
from bags import MS, T0, image, joints, write_bag  # noqa: E402
from configs import camera, configuration  # noqa: E402

from robocache import importing  # noqa: E402
from robocache import ray as cluster  # noqa: E402
from robocache.lerobot import EpisodesFailed, to_lerobot  # noqa: E402
from robocache.lerobot.cli import main  # noqa: E402
from robocache.node import share_folders  # noqa: E402

pytestmark = pytest.mark.timeout(600)
IMAGE = "observation.images.camera"
CONFIG = configuration(
    """\
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joints
    joints: [a, b]
    max_age_ms: 40
""",
    """\
  action:
    type: sensor_msgs/msg/JointState
    topic: /command
    joints: [a, b]
    max_age_ms: 60
""",
    camera(32, 16),
    rate_hz=20,
)
#: What each bag lacks: by topic, from when to when [s].
LACKS = {
    "whole": {},
    "late": {"/command": (0, 1), "/camera": (0, 0.5)},
    "gap": {"/camera": (1.0, 1.3)},
    "never": {"/command": (0, 9)},
}


def record(path, lacks, seconds=3.0):
    """A bag whose commands are all 1.5 or more, and whose pictures are never black."""
    messages = []
    for k in range(round(seconds * 100)):
        ns, t = T0 + k * 10 * MS, k / 100
        messages.append(("/joints", ns + MS, joints(ns, a=t, b=2.0)))
        if k % 5 == 0:
            messages.append(("/command", ns + MS, joints(ns, a=1.5 + t, b=1.5)))
            picture = np.full((32, 64, 3), 40 + k % 100, np.uint8)
            messages.append(("/camera", ns + MS, image(ns, picture)))

    def lacks_it(topic, ns):
        first, last = lacks.get(topic, (0, 0))
        return first <= (ns - T0) / 1e9 < last

    write_bag(path, [each for each in messages if not lacks_it(*each[:2])])


@pytest.fixture(scope="module", name="robot")
def robot_fixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("invalid")
    for name, lacks in LACKS.items():
        record(folder / "bags" / name, lacks)
    (folder / "robot.yaml").write_text(CONFIG)
    return folder


def bags(folder, *names):
    return [str(folder / "bags" / name) for name in names]


def arguments(folder, out, *names, options=()):
    return [*bags(folder, *names), f"--config={folder / 'robot.yaml'}", f"--out={out}", *options]


def rows_of(out):
    return pa.concat_tables(map(pq.read_table, sorted(out.glob("data/*/*.parquet"))))


def stats_of(out):
    return json.loads((out / "meta/stats.json").read_text())


def vectors(rows, key):
    return np.array(rows[key].to_pylist())


def test_an_episode_without_an_action_fails_by_name(robot, tmp_path, capfd):
    out = tmp_path / "out"
    assert main(arguments(robot, out, "late", "never", options=["--images"])) == 1
    said = capfd.readouterr()
    why = (
        "never: failed: action is valid at none of its 59 ticks: /command has no message in the bag"
    )
    assert why in said.err and "the dataset has the others" in said.err
    assert "never: /command: not in the bag" in said.err
    rows = rows_of(out)
    # From 1 s on there is a command, and the rest was valid before.
    assert vectors(rows, "action").min() == 1.5 and len(rows) == 40
    assert said.out.splitlines()[0] == f"{out}: 1 episodes, 40 frames"
    assert "late: 19 of 59 ticks are left out, at which a stream is not valid: " in said.err
    assert "action at 19" in said.err and "action: 33.9 % of 118 steps valid" in said.err
    stats = stats_of(out)
    assert stats["action"]["min"] == [2.5, 1.5] and stats["action"]["count"] == [40]
    assert min(np.ravel(stats[IMAGE]["min"])) > 0.1


def test_a_gap_begins_another_episode(robot, tmp_path):
    out = tmp_path / "out"
    with pytest.warns(RuntimeWarning, match="gap: 5 of 59 ticks are left out.*camera at 5"):
        assert to_lerobot(bags(robot, "gap"), robot / "robot.yaml", out) == (2, 54)
    rows = rows_of(out)
    assert rows["valid.camera"].to_pylist() == rows["valid.action"].to_pylist() == [True] * 54
    stamps, episodes = (np.array(rows[key]) for key in ("stamp_ns", "episode_index"))
    for episode in (0, 1):
        of = episodes == episode
        expected = (np.arange(of.sum()) / 20).astype(np.float32)
        assert np.array_equal(np.array(rows["timestamp"])[of], expected)
        assert set(np.diff(stamps[of])) == {50 * MS}
    assert np.diff(stamps).max() == 6 * 50 * MS


def test_short_pieces_are_left_out_and_counted(robot, tmp_path, capfd):
    # Before the gap, 21 frames; behind it, 35.
    out = tmp_path / "out"
    assert main(arguments(robot, out, "gap", options=["--min-frames=30"])) == 0
    said = capfd.readouterr()
    assert f"{out}: 1 episodes, " in said.out
    assert "pieces of fewer than 30 frames are left out (--min-frames): 1, of " in said.err
    with pytest.warns(RuntimeWarning, match="pieces of fewer than 20 frames"):
        bag = [tmp_path / "bags" / "gap"]
        record(bag[0], {"/camera": (0.5, 0.8)})
        assert to_lerobot(bag, robot / "robot.yaml", tmp_path / "second")[0] == 1


def test_all_ticks_can_be_kept_but_statistics_are_of_valid_values(robot, tmp_path):
    out = tmp_path / "out"
    with pytest.warns(RuntimeWarning, match="action: 67.8 % of 59 steps valid"):
        counts = to_lerobot(bags(robot, "late"), robot / "robot.yaml", out, keep_invalid=True)
    assert counts == (1, 59)
    rows, stats = rows_of(out), stats_of(out)
    valid = np.array(rows["valid.action"])
    assert valid.sum() == 40 and not vectors(rows, "action")[~valid].any()
    of_valid = vectors(rows, "action")[valid].astype(np.float64)
    got = stats["action"]
    assert got["count"] == [40] and got["min"] == of_valid.min(axis=0).tolist()
    np.testing.assert_allclose(got["mean"], of_valid.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(got["q01"], np.quantile(of_valid, 0.01, axis=0), rtol=1e-6)
    assert min(np.ravel(stats[IMAGE]["min"])) > 0.1


def test_a_stream_that_no_policy_needs_may_be_missing(robot, tmp_path):
    config = tmp_path / "robot.yaml"
    config.write_text(
        CONFIG
        + "  grid:\n    type: sensor_msgs/msg/PointCloud2\n    topic: /cloud\n    max_age_ms: 50\n"
        "    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: occupancy}]}\n"
    )
    out = tmp_path / "out"
    with pytest.warns(RuntimeWarning, match="whole: /cloud: not in the bag"):
        counts = to_lerobot(bags(robot, "whole"), config, out, images=True)
    assert counts[0] == 1
    rows, got = rows_of(out), stats_of(out)["observation.grid"]
    assert set(rows["valid.grid"].to_pylist()) == {False}
    assert np.ravel(got["count"]).tolist() == [0] and not np.ravel(got["std"]).any()


@pytest.mark.parametrize("layout", ["lerobot", "gr00t"])
def test_every_vector_that_a_policy_may_read_is_valid(robot, tmp_path, layout):
    """LeRobot and GR00T give vectors beside `observation.state` to a policy, too."""
    config = tmp_path / "robot.yaml"
    config.write_text(
        CONFIG.replace("  joints:\n", "  state:\n")
        + "  environment_state:\n    type: sensor_msgs/msg/JointState\n    topic: /environment\n    joints: [x]\n"
        "    max_age_ms: 40\n"
    )
    messages = []
    for k in range(300):
        ns = T0 + k * 10 * MS
        messages.append(("/joints", ns + MS, joints(ns, a=1.0, b=1.0)))
        messages.append(("/command", ns + MS, joints(ns, a=1.0, b=1.0)))
        messages.append(("/camera", ns + MS, image(ns, np.full((32, 64, 3), 90, np.uint8))))
        if not 100 <= k < 150:
            messages.append(("/environment", ns + MS, joints(ns, x=5.0)))
    write_bag(tmp_path / "bags" / "gap", messages)
    out = tmp_path / "out"
    with pytest.warns(RuntimeWarning, match="environment_state at "):
        counts = to_lerobot([tmp_path / "bags"], config, out, layout=layout, codec="h264")
    assert counts[0] == 2
    rows = rows_of(out)
    assert set(np.ravel(rows["observation.environment_state"].to_pylist())) == {5.0}
    assert set(rows["valid.environment_state"].to_pylist()) == {True}


@pytest.mark.parametrize(("option", "name"), [("action", "action"), ("state", "joints")])
def test_a_stream_that_is_named_twice_is_an_error(robot, tmp_path, option, name):
    with pytest.raises(ValueError, match=f"--{option}: expected each stream once, found '{name}'"):
        given = {option: [name, name]}
        to_lerobot(bags(robot, "whole"), robot / "robot.yaml", tmp_path / "out", **given)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("/command", "/commands"),
            "action is valid at none of its 59 ticks: /commands has no message in the bag",
        ),
        (
            ("/command\n    joints: [a, b]", "/command\n    joints: [a, wrong]"),
            "action is valid at none of its 59 ticks: /command: 60 of 60 messages dropped: missing_field",
        ),
        (("topic: /camera", "topic: /eye"), "camera is valid at none of its 59 ticks: /eye has no"),
        (
            ("/command\n", "/commands\n    required: true\n"),
            "it has no tick; 59 were held back, because a required stream was not valid",
        ),
    ],
)
def test_what_is_misspelt_is_told_and_no_dataset_is_written(robot, tmp_path, capfd, change, why):
    config, out = tmp_path / "robot.yaml", tmp_path / "out"
    config.write_text(CONFIG.replace(*change))
    assert main([*bags(robot, "whole"), f"--config={config}", f"--out={out}"]) == 1
    said = capfd.readouterr()
    assert f"whole: failed: {why}" in said.err
    assert "so there is no dataset" in said.err and said.out == "" and not out.exists()


def test_without_a_stream_of_actions_nothing_is_replayed(robot, tmp_path, capfd):
    config, out = tmp_path / "robot.yaml", tmp_path / "out"
    config.write_text(CONFIG.replace("  action:\n", "  command:\n"))
    assert main([*bags(robot, "whole"), f"--config={config}", f"--out={out}"]) == 1
    said = capfd.readouterr().err
    assert "expected a stream of actions, found only joints, command, camera: give --action" in said
    assert "\n  action:\n    {type: sensor_msgs/msg/JointState, topic: /command, joints" in said
    assert [path.name for path in tmp_path.iterdir()] == ["robot.yaml"]
    assert to_lerobot(bags(robot, "whole"), config, out, action=["command"]) == (1, 59)


def test_if_no_frame_is_left_the_reason_is_told(robot, tmp_path, capfd):
    out = tmp_path / "out"
    assert main(arguments(robot, out, "whole", "gap", options=["--min-frames=1000"])) == 1
    said = capfd.readouterr()
    assert "no frame is left, so there is no dataset: all pieces are shorter" in said.err
    assert "pieces of fewer than 1000 frames" in said.err and said.out == "" and not out.exists()
    with pytest.warns(RuntimeWarning), pytest.raises(RuntimeError, match="no frame is left"):
        to_lerobot(bags(robot, "gap"), robot / "robot.yaml", out, min_frames=1000)
    for given, why in (
        ({"min_frames": 0}, "--min-frames: expected 1 or more, found 0"),
        ({"min_frames": 5, "keep_invalid": True}, "--min-frames: expected none with"),
    ):
        with pytest.raises(ValueError, match=why):
            to_lerobot(bags(robot, "gap"), robot / "robot.yaml", out, **given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'drop_invalid'"):
        to_lerobot(bags(robot, "gap"), robot / "robot.yaml", out, drop_invalid=True)


def test_damage_is_told(robot, tmp_path, capfd):
    record(tmp_path / "bags" / "whole", {})
    (file,) = (tmp_path / "bags" / "whole").glob("*.mcap")
    data = bytearray(file.read_bytes())
    middle = len(data) // 3
    data[middle : middle + len(data) // 3] = np.random.default_rng(0).bytes(len(data) // 3)
    file.write_bytes(data)
    out, config = tmp_path / "out", robot / "robot.yaml"
    main([str(tmp_path / "bags"), f"--config={config}", f"--out={out}", "--min-frames=1"])
    said = capfd.readouterr().err
    assert "whole: " in said and ".mcap" in said and "damaged" in said, said


@pytest.fixture(name="inline")
def inline_fixture(monkeypatch):
    """Shares run in this process, without Ray."""

    def run_shares(share, folder, **_):
        of = share_folders.number_of(folder, 2)
        parts = [folder / f"{number:05}" for number in range(1, of + 1)]
        for number, part in enumerate(parts, start=1):
            part.mkdir(exist_ok=True)
            share(number, of, part)
        return parts

    monkeypatch.setattr(cluster, "run_shares", run_shares)


def test_a_replay_on_a_cluster_tells_what_it_lacks(robot, tmp_path, capfd, inline):
    assert cluster.main(["replay", *arguments(robot, tmp_path / "out", "late", "never")]) == 0
    said = capfd.readouterr().err
    assert "never: /command: not in the bag" in said and "action: 33." in said


def test_a_cluster_tells_the_same(robot, tmp_path, capfd, inline):
    names = ("late", "never")
    code = main(arguments(robot, tmp_path / "alone", *names, options=["--images"]))
    alone = capfd.readouterr()
    options = arguments(robot, tmp_path / "joined", *names, options=["--images"])
    assert cluster.main(["to-lerobot", *options]) == code == 1
    joined = capfd.readouterr()
    assert sorted(joined.err.splitlines()) == sorted(alone.err.splitlines())
    assert joined.out == alone.out.replace("/alone", "/joined")
    with pytest.raises(EpisodesFailed), pytest.warns(RuntimeWarning, match="late: 19 of 59"):
        given = {"replace": True, "images": True}
        cluster.to_lerobot(bags(robot, *names), robot / "robot.yaml", tmp_path / "joined", **given)


def test_a_dataset_can_be_replaced(robot, tmp_path, capfd):
    out = tmp_path / "out"
    assert main(arguments(robot, out, "whole")) == 0
    capfd.readouterr()
    assert main(arguments(robot, out, "gap")) == 1
    assert "expected a folder that does not exist yet; --replace" in capfd.readouterr().err
    assert main(arguments(robot, out, "gap", options=["--replace"])) == 0
    assert len(rows_of(out)) == 54
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    # If nothing comes of it, the older one stays. What is no dataset is not removed.
    assert main(arguments(robot, out, "never", options=["--replace"])) == 1
    assert len(rows_of(out)) == 54
    (tmp_path / "other").mkdir()
    assert main(arguments(robot, tmp_path / "other", "gap", options=["--replace"])) == 1
    assert "found a folder without meta/robocache.json" in capfd.readouterr().err


def test_the_warning_of_samplers_is_not_of_an_export(robot, tmp_path):
    """Its windows are mostly invalid where a command is missing, and a program may make errors of warnings."""
    out = tmp_path / "out"
    with warnings.catch_warnings(record=True) as found, pytest.raises(EpisodesFailed):
        warnings.simplefilter("always")
        to_lerobot(bags(robot, "never"), robot / "robot.yaml", out)
    # Most ticks are in a silence of the commands.
    record(tmp_path / "silent", {"/command": (0.5, 2.7)})
    with warnings.catch_warnings(record=True) as more:
        warnings.simplefilter("always")
        to_lerobot(
            [str(tmp_path / "silent")], robot / "robot.yaml", tmp_path / "set", keep_invalid=True
        )
    assert not [each for each in [*found, *more] if "sampler" in str(each.message)]


def test_a_cluster_refuses_wrong_options_before_it_runs(robot, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "run_shares", lambda *_, **__: pytest.fail("it ran"))
    config = tmp_path / "robot.yaml"
    config.write_text(CONFIG.replace("  action:\n", "  command:\n"))
    for path, given, kind, said in (
        (robot / "robot.yaml", {"keep_bad": True}, TypeError, "unexpected keyword argument"),
        (robot / "robot.yaml", {"keep_invalid": True, "min_frames": 3}, ValueError, "--min-frames"),
        (robot / "robot.yaml", {"codec": "mpeg2"}, ValueError, "mpeg2"),
        (robot / "robot.yaml", {"layout": "x"}, ValueError, "--layout"),
        (config, {}, ValueError, "expected a stream of actions"),
    ):
        with pytest.raises(kind, match=said):
            cluster.to_lerobot(bags(robot, "whole"), path, tmp_path / "out", **given)
    assert [path.name for path in tmp_path.iterdir()] == ["robot.yaml"]


def test_a_cluster_counts_the_episodes_that_are_there(robot, tmp_path, capfd, inline):
    for number in range(6):
        (tmp_path / "bags").mkdir(exist_ok=True)
        (tmp_path / "bags" / f"bad{number}.mcap").write_bytes(b"no bag")
    bad = [str(path) for path in sorted((tmp_path / "bags").iterdir())]
    options = arguments(robot, tmp_path / "out", "whole")
    assert cluster.main(["replay", *bad, *options]) == 1
    assert capfd.readouterr().out.splitlines()[-1] == f"1 episodes in {tmp_path / 'out'}"


def test_an_import_on_a_cluster_warns_as_one_of_this_machine(tmp_path, inline):
    files = lerobot_files.Files(tmp_path / "dataset", "v2.1", features={})
    for number in range(3):
        columns = lerobot_files.frames_of(20, number)
        columns[lerobot_files.STATE][5:10] = np.nan
        files.add(columns)
    root = files.finish()
    with pytest.warns(RuntimeWarning, match="messages dropped: non_finite") as found:
        cluster.import_dataset(root, tmp_path / "joined")
    (joined,) = found
    assert joined.filename == __file__
    with pytest.warns(RuntimeWarning) as found:
        importing.import_rows(root, tmp_path / "alone")
    assert str(joined.message) == "\n".join(str(each.message) for each in found)
