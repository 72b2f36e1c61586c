"""`python -m robocache.ray` on a cluster of two workers. The test kills one of them on the way."""

import json
import os
import shutil
import signal
import time

import pyarrow.parquet as pq
import pytest
import waiting
from bags import T0

ray = pytest.importorskip("ray")
import dataset_files  # noqa: E402
import lerobot_files  # noqa: E402
import robots  # noqa: E402
from same_files import expect_same  # noqa: E402

import robocache  # noqa: E402
import robocache.ray as cluster  # noqa: E402 (Ray comes first)
from robocache import importing  # noqa: E402
from robocache.lerobot import run as of_dataset  # noqa: E402
from robocache.lerobot.writing import ABOUT  # noqa: E402

pytestmark = pytest.mark.timeout(600)
BAGS = 5
#: A file of statistics and a message type of the environment belong to what it means.
DEPENDENT = """
rate_hz: 20
lag_ms: 20
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joints
    joints: [a, b]
    max_age_ms: 40
    operators:
      - normalize: {mode: mean_std, stats: stats.json, key: joints}
  level:
    type: own_msgs/msg/Level
    topic: /level
    select: [value]
    max_age_ms: 40
"""


@pytest.fixture(scope="module")
def two_workers():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    """Bags and a configuration. Two bags have the same name."""
    folder = tmp_path_factory.mktemp("cluster")
    for number in range(BAGS):
        name = f"day{number}/robot" if number < 2 else f"robot{number}"
        start = T0 + number * 3600 * 10**9
        silence = (0.8, 1.3) if number == 3 else (0, 0)
        robots.record(
            folder / "bags" / name, seconds=1.6, seed=number, start=start, silence=silence
        )
    (folder / "robot.yaml").write_text(robots.CONFIG)
    return [folder / "bags"], folder / "robot.yaml"


def kill_once(share, killed):
    """A share whose first worker is killed while it replays, and always before it answers."""

    def run(number, of, folder):
        import contextlib
        import threading

        if number == 2 and not killed.exists():
            killed.write_text(str(os.getpid()))

            def kill():
                # The replay of this share has begun.
                has_files = False
                while not has_files:
                    time.sleep(0.001)
                    with contextlib.suppress(FileNotFoundError):  # not yet, or renamed meanwhile
                        has_files = bool(os.listdir(folder))
                os.kill(os.getpid(), signal.SIGKILL)

            killer = threading.Thread(target=kill)
            killer.start()
            share(number, of, folder)
            # The kill ends this wait, if the share was faster.
            killer.join()
        return share(number, of, folder)

    return run


@pytest.fixture
def killed(monkeypatch, tmp_path):
    """A worker of the run is killed; the file has the number of its process."""
    file, run_shares = tmp_path / "killed", cluster.run_shares

    def run(share, folder, **options):
        return run_shares(kill_once(share, file), folder, **options)

    monkeypatch.setattr(cluster, "run_shares", run)
    yield
    # Ray knows that the worker is dead, but may collect it later.
    process = int(file.read_text())
    waiting.until(lambda: is_gone(process), "the killed worker is gone")


def is_gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("form", ["mcap", "zarr", "rows"])
def test_replay_has_the_bytes_of_one_process(two_workers, robot, tmp_path, killed, form):
    bags, config = robot
    told = []
    out = tmp_path / "out"
    code, outcomes = cluster.replay(bags, config, out, format=form, shares=3, told=told.append)
    assert code == 0 and [list(outcome) for outcome in outcomes] == [["kept"]] * BAGS
    assert told[-1] == f"3 of 3 shares, {BAGS} episodes"
    alone = robots.replay(bags, config, tmp_path / "alone", "--format", form)
    assert len(expect_same(out, alone, apart_from=["replay.json"])) >= BAGS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "killed", "out"]


def test_a_share_that_always_fails_ends_the_run(two_workers, tmp_path):
    def share(number, of, folder):
        if number == 2:
            raise ValueError("expected a robot")
        return 1

    with pytest.raises(RuntimeError, match="share 2 of 2 failed(?s:.*)expected a robot"):
        cluster.run_shares(share, tmp_path / "shares", shares=2)
    # The next run has as many shares, so that it finds what they had.
    folders = cluster.run_shares(lambda *_: 1, tmp_path / "shares", shares=7)
    assert [folder.name for folder in folders] == ["00001", "00002"]


def test_an_episode_that_fails_is_reported(two_workers, robot, tmp_path, capfd):
    bags, config = robot
    (tmp_path / "wrong.mcap").write_bytes(b"no bag")
    code, outcomes = cluster.replay(
        [*bags, tmp_path / "wrong.mcap"], config, tmp_path / "out", shares=2
    )
    assert code == 1 and "wrong" in str(outcomes[-1]["failed"])
    assert len(list((tmp_path / "out").glob("*.mcap"))) == BAGS


def broken_off(out):
    """Leaves a complete result as a run does that was ended without a word."""
    ledger = json.loads((out / "replay.json").read_text())
    lines = [
        json.dumps({"Added": {"result": result, "entry": entry}})
        for result, entry in ledger.pop("episodes").items()
    ]
    (out / "replay.json.journal").write_text("\n".join([*lines, lines[0][:50]]))
    (out / "replay.json").write_text(json.dumps({**ledger, "episodes": {}}))


@pytest.mark.parametrize(
    "form, is_whole", [("mcap", 1), ("mcap", 0), ("zarr", 1), ("zarr", 0), ("rows", 1)]
)
def test_what_is_there_is_not_made_again(two_workers, robot, tmp_path, monkeypatch, form, is_whole):
    (folder,), config = robot
    bags = [folder / name for name in ("day0", "robot2", "robot3", "robot4")]
    out, run_shares, made = tmp_path / "out", cluster.run_shares, []

    def run(share, folder, **options):
        parts = run_shares(share, folder, **options)
        for part in parts:
            made.extend(file.stem for file in part.glob("*.mcap"))
            made.extend(each.name for each in part.glob("*.parts/*"))
        return parts

    monkeypatch.setattr(cluster, "run_shares", run)
    # The first result is of one process, which may have ended before it joined the parts.
    options = [] if is_whole else ["--parts-only"]
    robots.replay([bags[0], *bags[2:]], config, out, "--format", form, *options)
    if not is_whole:
        broken_off(out)
    code, outcomes = cluster.replay(bags, config, out, format=form, shares=3)
    assert code == 0 and [list(outcome) for outcome in outcomes] == [["kept"]] * 4
    assert made == ["robot2"]
    fresh = robots.replay(bags, config, tmp_path / "fresh", "--format", form)
    expect_same(out, fresh, apart_from=["replay.json"])
    # Another configuration makes all again, if that is asked for.
    made.clear()
    other = tmp_path / "other.yaml"
    other.write_text(robots.CONFIG.replace("max_age_ms: 40", "max_age_ms: 30"))
    again = cluster.replay(bags, other, out, format=form, options=["--replace"], shares=3)
    assert again[0] == 0 and len(made) == 4
    fresh = robots.replay(bags, other, tmp_path / "again", "--format", form)
    expect_same(out, fresh, apart_from=["replay.json"])
    assert not (tmp_path / "out.shares").exists()


def test_a_dataset_lacks_an_episode_that_fails(two_workers, robot, tmp_path):
    from robocache.lerobot import EpisodesFailed, to_lerobot

    (folder,), config = robot
    wrong = tmp_path / "wrong.mcap"
    wrong.write_bytes(b"no bag")
    bags = [folder / "robot2", wrong, folder / "robot4"]
    out, alone = tmp_path / "out" / "dataset", tmp_path / "alone" / "dataset"
    given = {"images": True, "keep_invalid": True}
    with pytest.raises(EpisodesFailed, match="the dataset has the others:\nwrong: ") as failed:
        cluster.to_lerobot(bags, config, out, cluster={"shares": 3}, **given)
    counts = to_lerobot([bags[0], bags[2]], config, alone, **given)
    assert (failed.value.episodes, failed.value.frames) == counts
    expect_same(out, alone)


def test_a_finished_share_is_used_again_if_it_is_made_of_the_same(two_workers, robot, tmp_path):
    from robocache.lerobot import EpisodesFailed, to_lerobot

    (folder,), config = robot
    wrong, listed = tmp_path / "wrong.mcap", tmp_path / "episodes.csv"
    wrong.write_bytes(b"no bag")
    bags, out = [folder / "robot2", wrong], tmp_path / "out" / "dataset"
    given = {"images": True, "keep_invalid": True, "replay_options": [f"--episodes={listed}"]}

    def run():
        shutil.rmtree(out, ignore_errors=True)
        return cluster.to_lerobot(bags, config, out, cluster={"shares": 2}, **given)

    def made():
        # A file system may give the number of a file that is gone to the next one.
        file = (out.with_name("dataset.shares") / "00001/dataset/meta/info.json").stat()
        return file.st_ino, file.st_mtime_ns

    def listed_as(task):
        listed.write_text(f"bag,start,end,task\nrobot2,0,0.8,{task}\nwrong,0,0.8,{task}\n")
        with pytest.raises(EpisodesFailed, match="wrong"):
            run()
        tasks = [each["task"] for each in json.loads((out / ABOUT).read_text())["episodes"]]
        assert tasks == [task]
        return made()

    first = listed_as("open")
    other = listed_as("close")
    # The list of episodes is another one; the next one is the same.
    assert other != first and listed_as("close") == other
    # A bag that is repaired makes its own share again, and no other one.
    join, joined = of_dataset.join, []
    (file,) = (folder / "robot4").glob("*.mcap")
    shutil.copyfile(file, wrong)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_dataset, "join", lambda *given: joined.append(made()) or join(*given))
        counts = run()
    assert joined == [other] and not out.with_name("dataset.shares").exists()
    assert counts == to_lerobot(bags, config, tmp_path / "alone", **given) and counts[0] == 2


def test_a_share_is_made_of_all_that_its_dataset_depends_on(robot, tmp_path, monkeypatch):
    bags, _ = robot
    config, statistics = tmp_path / "robot.yaml", tmp_path / "stats.json"
    definition = tmp_path / "share/own_msgs/msg/Level.msg"
    definition.parent.mkdir(parents=True)
    definition.write_text("float64 value\n")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    config.write_text(DEPENDENT)
    statistics.write_text(json.dumps({"joints": {"mean": [1.0, 2.0], "std": [1.0, 1.0]}}))

    def made_of(options=(), **given):
        given = {"action": ["joints"], "replay_options": options, **given}
        return of_dataset.made_of(bags, config, tmp_path / "out", **given)

    def differs(change):
        before = made_of()
        change()
        return made_of() != before

    assert not differs(lambda: None)
    assert differs(lambda: statistics.write_text(statistics.read_text().replace("2.0", "3.0")))
    assert differs(lambda: definition.write_text("float64 other\nfloat64 value\n"))
    assert differs(lambda: config.write_text(DEPENDENT + "# a comment\n"))
    assert differs(lambda: os.utime(next((bags[0] / "robot2").glob("*.mcap"))))
    assert made_of(task="tidy up") != made_of() != made_of(["--rate-hz=30"])
    assert made_of(["--jobs=1"]) == made_of()
    shares = [made_of([f"--share={number}/{BAGS}"]) for number in range(1, BAGS + 1)]
    assert len(set(shares)) == BAGS
    assert f"robocache {robocache.__version__} values " in made_of()
    with pytest.raises(ValueError, match="--rate-hz"):
        made_of(["--rate-hz=often"])


def test_what_does_not_fit_is_an_error(robot, tmp_path):
    bags, config = robot
    with pytest.raises(ValueError, match="is not in .*bags, found"):
        cluster.replay(bags, config, bags[0] / "out")
    with pytest.raises(ValueError, match="expected mcap, zarr or rows, found 'csv'"):
        cluster.replay(bags, config, tmp_path / "out", format="csv")


@pytest.mark.parametrize("images", [True, False])
def test_a_dataset_has_the_bytes_of_one_process(two_workers, robot, tmp_path, killed, images):
    from robocache.lerobot import to_lerobot

    bags, config = robot
    out, alone = tmp_path / "out" / "dataset", tmp_path / "alone" / "dataset"
    given = {"images": images, "keep_invalid": True, "task": "tidy up"}
    # More shares than bags: some are empty.
    counts = cluster.to_lerobot(bags, config, out, cluster={"shares": 6}, **given)
    assert counts == to_lerobot(bags, config, alone, **given) and counts[0] == BAGS + 1
    expect_same(out, alone)


def test_tasks_of_shares_are_numbered_as_those_of_one_process(two_workers, robot, tmp_path):
    from robocache.lerobot import to_lerobot

    bags, config = robot
    out, alone = tmp_path / "out" / "dataset", tmp_path / "alone" / "dataset"
    listed = tmp_path / "episodes.csv"
    lines = [
        "robot2,0,0.8,open",
        "robot2,0.8,1.6,close",
        "robot3,0,1.6,close",
        "robot4,0,1.6,tidy up",
    ]
    listed.write_text("\n".join(["bag,start,end,task", *lines]) + "\n")
    given = {"images": True, "keep_invalid": True, "replay_options": [f"--episodes={listed}"]}
    counts = cluster.to_lerobot(bags, config, out, cluster={"shares": 3}, **given)
    assert counts == to_lerobot(bags, config, alone, **given)
    expect_same(out, alone)
    assert pq.read_table(out / "meta/tasks.parquet")["task"].to_pylist() == [
        "open",
        "close",
        "tidy up",
    ]


@pytest.fixture(name="dataset", scope="module")
def dataset_fixture(tmp_path_factory):
    """A LeRobot dataset and an RLDS one."""
    folder = tmp_path_factory.mktemp("datasets")
    lerobot_files.write(folder / "lerobot", lengths=(6, 5, 4, 7))
    dataset_files.write_rlds(folder / "rlds", (5, 3, 4, 6, 2))
    (folder / "mapping.yaml").write_text(dataset_files.RLDS_MAPPING)
    return folder


@pytest.mark.parametrize(
    ("kind", "form"), [("lerobot", "rows"), ("rlds", "rows"), ("rlds", "mcap")]
)
def test_an_import_has_the_bytes_of_one_process(two_workers, dataset, tmp_path, killed, kind, form):
    mapping = None if kind == "lerobot" else dataset / "mapping.yaml"
    given = {"mapping": mapping, "format": form}
    told, out = [], tmp_path / "out"
    outcomes, no_store = cluster.import_dataset(
        dataset / kind, out, cluster={"shares": 3, "told": told.append}, **given
    )
    count = {"lerobot": 4, "rlds": 5}[kind]
    assert no_store is None and [list(each) for each in outcomes] == [["kept"]] * count
    assert told[-1] == f"3 of 3 shares, {count} episodes"
    importing.import_dataset(dataset / kind, tmp_path / "alone", **given)
    expect_same(out, tmp_path / "alone", apart_from=["replay.json"])
    assert (out / "splits.json").exists() == (kind == "rlds")
    assert not (tmp_path / "out.shares").exists()


def test_an_import_reports_an_episode_that_fails(two_workers, dataset, tmp_path, capsys):
    root = shutil.copytree(dataset / "rlds", tmp_path / "rlds")
    (path,) = root.glob("demo-val*")
    path.write_bytes(path.read_bytes()[:-9])
    arguments = ["import", str(root), "--mapping", str(dataset / "mapping.yaml")]
    arguments += ["--out", str(tmp_path / "out"), "--shares", "2"]
    assert cluster.main(arguments) == 1
    told = capsys.readouterr()
    assert "val_000004: failed: " in told.err and "it may be truncated" in told.err
    assert told.out == f"{tmp_path / 'out/rows.zarr'}: 4 episodes\n"
    with pytest.raises(ValueError, match="expected a folder that is not in"):
        cluster.import_dataset(root, root / "out", mapping=dataset / "mapping.yaml")
