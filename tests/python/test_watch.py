"""`robocache watch`: each episode is converted when it has ended, and the result of all is that of one command."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
for needed in ("av", "mcap", "pyarrow", "rosbags", "zarr"):
    pytest.importorskip(needed, exc_type=ImportError)
import pyarrow.parquet as pq  # noqa: E402 (what is missing is said first)
import robots  # noqa: E402
import waiting  # noqa: E402
from node_episodes import record  # noqa: E402
from same_files import expect_same  # noqa: E402

from robocache import _native  # noqa: E402
from robocache.watching import episodes  # noqa: E402
from robocache.watching.summary import Entry, Summary  # noqa: E402

pytestmark = pytest.mark.timeout(600)
HOUR_NS = 3600 * 10**9
DATASET = ["--to-lerobot", "--keep-invalid"]


class Watching:
    """A folder of episodes, and the command that watches it."""

    def __init__(self, folder, *options):
        self.runs, self.out = folder / "runs", folder / "out"
        self.watched = folder / "out.watched"
        self.config = folder / "robot.yaml"
        self.config.write_text(robots.CONFIG)
        self.places = ["--config", self.config, "--out", self.out]
        self._options, self._number = options, 0
        self.start()

    def start(self):
        # Beside other tests, a nice program would starve.
        command = [sys.executable, "-m", "robocache", "watch", self.runs, *self.places, "--nice=0"]
        self.process = subprocess.Popen(
            [*map(str, command), *self._options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def record(self, name, without=(), **given):
        """Records an episode. No topic of `without` is in it."""
        self._number += 1
        start = robots.T0 + self._number * HOUR_NS
        messages = robots.messages_of(1.5, seed=self._number, start=start)
        messages = [message for message in messages if message[0] not in without]
        return record(self.runs, name, messages, **given), start

    def entries(self):
        path = self.watched / "summary.json"
        return json.loads(path.read_text())["episodes"] if path.exists() else []

    def until(self, *names):
        """Waits until these episodes, and no others, are in the summary. Returns the newest entry."""

        def are_there():
            assert self.process.poll() is None, self.process.communicate()
            return {entry["name"] for entry in self.entries()} == set(names)

        waiting.until(are_there, f"the episodes {names}")
        return next(entry for entry in self.entries() if entry["name"] == names[-1])

    def stop(self, number=signal.SIGTERM):
        """Ends the command. Returns its exit code and what it printed."""
        self.process.send_signal(number)
        out, _ = waiting.communicate(self.process, "the end of the command")
        return self.process.returncode, out

    def command(self, name, *options, expect=0):
        command = [sys.executable, "-m", "robocache", name, self.runs, *self.places, *options]
        done = waiting.run(command)
        assert done.returncode == expect, done.stderr
        return done


@pytest.fixture
def watching(tmp_path, request):
    """Starts the command with options. It ends with the test."""
    started = []

    def start(*options):
        started.append(Watching(tmp_path, *options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            waiting.communicate(each.process, "the end of the command")


def test_episodes_become_the_dataset_that_one_command_makes(watching, tmp_path):
    node = watching(*DATASET)
    (a, start) = node.record("a", task="pick")
    assert node.until("a")["valid"]["image_left"] > 0.9
    marks = [(start + 3 * HOUR_NS, "discard", "true")]
    node.record("b", task="place", marks=marks)
    assert node.until("a", "b")["became"] == "discarded"
    (_, start) = node.record("c", task="place", marks=[(robots.T0, "success", "true")])
    node.record("d", killed=True)
    entry = node.until("a", "b", "c", "d")
    assert (entry["became"], entry["ended"]) == ("converted", False)
    # It goes on where it was, and makes nothing again.
    made = {path: path.stat().st_mtime_ns for path in node.watched.glob("*/dataset/meta/info.json")}
    assert len(made) == 3 and not node.out.exists()
    before = node.entries()
    assert node.stop()[0] == 0
    text = (node.watched / "summary.txt").read_text()
    assert (
        "d: 19 ticks; not ended (the node was killed, or its disk failed); joints 100.0 %" in text
    ), text
    node.start()
    node.record("e")
    node.until("a", "b", "c", "d", "e")
    code, printed = node.stop(signal.SIGINT)
    assert code == 0 and "c: " not in printed, printed
    assert node.entries()[:4] == before
    assert {path: path.stat().st_mtime_ns for path in made} == made
    # One command makes the dataset of all, and the same files as without the parts.
    options = DATASET[1:]
    done = node.command("to-lerobot", *options)
    assert "4 episodes" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in made} == made
    node.places[-1] = tmp_path / "alone"
    node.command("to-lerobot", *options)
    expect_same(node.out, tmp_path / "alone")
    # A part that somebody removed is made again.
    shutil.rmtree(node.watched / "a/dataset")
    node.places[-1] = node.out
    node.command("to-lerobot", *options, "--replace")
    expect_same(node.out, tmp_path / "alone")
    rows = pq.read_table(node.out / "data/chunk-000/file-000.parquet")
    numbers = rows["episode_index"].to_numpy()
    marked = rows["mark.success"].to_numpy()
    assert [set(marked[numbers == k].tolist()) for k in range(4)] == [{0}, {1}, {0}, {0}]
    tasks = pq.read_table(node.out / "meta/tasks.parquet")["task"].to_pylist()
    assert tasks == ["pick", "place", ""]


def test_a_dead_camera_is_seen_after_one_episode_and_a_failure_does_not_end_it(watching):
    node = watching("--format", "zarr")
    node.record("a")
    assert node.until("a")["warnings"] == []
    node.record("b", without=["/camera"])
    entry = node.until("a", "b")
    assert [text for text in entry["warnings"] if "image_left" in text] == [
        "image_left: no step is valid; 100.0 % in an earlier episode"
    ]
    assert any(text.startswith("/camera: not in the bag") for text in entry["found"])
    (node.runs / "c").mkdir()
    (node.runs / "c/c_0.mcap").write_bytes(b"no messages")
    (node.runs / "c/metadata.yaml").write_text("no: metadata\n")
    assert node.until("a", "b", "c")["became"] == "failed"
    node.record("d")
    node.until("a", "b", "c", "d")
    # A bag of another recorder without its metadata.yaml may still be written.
    (node.runs / "e").mkdir()
    (node.runs / "e/e_0.mcap").write_bytes(b"no messages")
    assert _native.look_at_episode(node.runs / "e") == ("unknown", False, False)
    code, printed = node.stop()
    assert code == 1 and "\na: " in printed
    text = (node.watched / "summary.txt").read_text()
    assert "c: FAILED: " in text
    assert "WARNING b: image_left: no step is valid" in text and "\nd: " in text
    # The results are those of the replay of all, which keeps them.
    done = node.command("replay", "--format", "zarr", "--json", expect=1)
    kinds = [kind for outcome in json.loads(done.stdout) for kind in outcome]
    assert kinds == ["kept", "kept", "failed", "kept", "failed"]
    # There is a store now, and episodes still come.
    node.start()
    node.record("f")
    assert node.until("a", "b", "c", "d", "f")["became"] == "converted"
    # The one that failed is gone, so nothing is left to do.
    shutil.rmtree(node.runs / "c")
    assert node.stop()[0] == 0


def test_rows_without_a_row_are_a_warning(watching):
    node = watching("--format", "rows")
    node.record("a", without=["/cloud"])
    entry = node.until("a")
    assert entry["warnings"] == ["cells: no row, and none before", "grid: no row, and none before"]
    assert entry["rows"]["joints"] == 150 and entry["valid"] == {}
    assert node.stop()[0] == 0
    assert "joints 150 rows" in (node.watched / "summary.txt").read_text()
    done = node.command("replay", "--format", "rows", "--json")
    assert [kind for outcome in json.loads(done.stdout) for kind in outcome] == ["kept"]


def converted(bag, written_ns, handled, looked, monkeypatch):
    """The entry of an episode that looks so, with a converter that has a fault."""

    def convert(_):
        raise KeyError("joint")

    monkeypatch.setattr(_native, "look_at_episode", lambda _: looked)
    return episodes._converted(bag, written_ns, convert, handled)


def test_an_episode_is_converted_once_unless_it_is_recorded_again(tmp_path, monkeypatch):
    handled = {}
    complete, killed = ("complete", True, False), ("killed", False, False)
    for written_ns, looked, ended in (
        (1, ("running", False, False), None),
        (1, killed, False),
        (1, killed, None),
        (1, complete, True),
        (1, complete, None),
        (2, ("running", False, False), None),
        # Its disk was full.
        (2, ("complete", False, False), False),
        (2, ("complete", False, False), None),
    ):
        entry = converted(tmp_path / "a", written_ns, handled, looked, monkeypatch)
        assert (entry and entry.ended) == ended, (written_ns, looked)
        assert entry is None or (entry.became, entry.why) == ("failed", ["KeyError: 'joint'"])


def test_a_folder_that_cannot_be_listed_does_not_end_it(tmp_path):
    assert episodes._written_ns(tmp_path / "gone") == 0


def entry_of(name, **given):
    return Entry(name=name, became="converted", ended=True, ticks=10, **given)


def test_a_share_is_compared_with_the_best_one_before(tmp_path):
    summary = Summary(tmp_path)
    assert summary.take(entry_of("a", valid={"arm": 0.9, "eye": 0.0})) == [
        "a: 10 ticks; arm 90.0 %, eye 0.0 %",
        "WARNING a: eye: no step is valid, and none was before",
    ]
    assert len(summary.take(entry_of("b", valid={"arm": 0.46, "eye": 0.3}))) == 1
    worse = entry_of("c", valid={"arm": 0.44, "eye": 0.3})
    assert summary.take(worse)[1:] == [
        "WARNING c: arm: 44.0 % of the steps are valid; 90.0 % in an earlier episode"
    ]
    # After a restart the same entry is no news, and another one takes its place.
    again = Summary(tmp_path)
    assert again.entries == summary.entries
    assert again.take(entry_of("c", valid={"arm": 0.44, "eye": 0.3})) == []
    assert len(again.take(entry_of("b", valid={"arm": 0.2, "eye": 0.3}))) == 2
    assert [entry.name for entry in again.entries] == ["a", "b", "c"]


def test_wrong_arguments_are_errors_at_the_start(tmp_path):
    (tmp_path / "robot.yaml").write_text(robots.CONFIG)
    places = [tmp_path, "--config", tmp_path / "robot.yaml"]
    command = [sys.executable, "-m", "robocache", "watch"]
    for options, code, said in (
        (["--out", tmp_path / "out"], 1, "expected a folder that is not in"),
        (["--out", "out", "--format", "csv"], 2, "invalid choice: 'csv'"),
        (["--out", "out", "--crf", "20"], 2, "unrecognized arguments: --crf"),
        (["--out", "out", "--to-lerobot", "--crf", "-1"], 1, "crf"),
        (["--out", "out", "--to-lerobot", "--episodes", "list.csv"], 2, "expected no list"),
    ):
        done = waiting.run([*command, *places, *options])
        assert done.returncode == code and said in done.stderr, (options, done.stderr)
