"""A day of data collection: episodes by a button become a LeRobot dataset by two commands.

One episode is marked as not wanted, and in one the node is killed. The dataset is read by pyarrow, and its frames are the live
tensors.
"""

import json
import signal
from pathlib import Path

import configuration
import numpy as np
import pyarrow.parquet as pq
import pytest
import recordings
import waiting
from collecting import STREAM, Collecting
from fusion import segments
from robocache_ros.srv import Record

TICKS = 15
ACTION = {"action": {**STREAM, "topic": "command", "history": {"steps": 1, "step_ms": 10}}}


def episode(node, begin, *marks):
    """Records an episode with marks in its middle. Returns its folder and its live tensors, which another episode may end."""
    folder = Path(begin())
    first = len(node.fusion.ticks)
    node.run(TICKS)
    for name, value in marks:
        node.note(name, value)
    node.run(TICKS)
    return folder, {tick: node.fusion.tensors[tick] for tick in node.fusion.ticks[first:]}


def begin_by_service(node):
    done = node.call(node.record, Record.Request(start=True, name="pick_1", task="pick the cup"))
    assert done.success, done.message
    return done.folder


def rows_of(out):
    """By the name of an episode the columns of its rows as arrays, and its task."""
    rows = pq.read_table(out / "data/chunk-000/file-000.parquet")
    tasks = pq.read_table(out / "meta/tasks.parquet")["task"].to_pylist()
    about = json.loads((out / "meta/robocache.json").read_text())["episodes"]
    found = {}
    for number, of in enumerate(about):
        own = rows.filter(np.equal(rows["episode_index"].to_numpy(), number))
        task = tasks[own["task_index"][0].as_py()]
        columns = {name: np.array(own[name].to_pylist()) for name in own.column_names}
        found[of["name"]] = columns, task
    return found


def expect_live(columns, live):
    """Compares the frames of an episode with its live tensors."""
    assert columns["tick"].tolist() == list(live)
    parts = [segments(message) for message in live.values()]
    for key, stream in (("observation.state", "wrench"), ("action", "action")):
        assert np.array_equal(columns[key], [part[stream].array[-1] for part in parts]), key
        assert columns[f"valid.{stream}"].all()
        assert columns[f"age_ns.{stream}"].tolist() == [part[stream].age_ns[-1] for part in parts]


def expect_verified(folder, is_complete):
    report = recordings.verify(configuration.program(), folder)
    assert (report["different"], report["unverifiable"]) == ([], 0)
    assert (report["equal"], report["complete"]) == (2 * TICKS, is_complete)


@pytest.mark.timeout(300)
def test_episodes_by_a_button_become_a_dataset_by_two_commands(ros, start, tmp_path):
    out, program = tmp_path / "dataset", configuration.program()
    config = ["--config", tmp_path / "config.yaml", "--out", out, "--task=move", "--min-frames=1"]
    node = Collecting(ros, start, tmp_path, ACTION, expected_code=-signal.SIGKILL)
    # Beside other tests, a nice program would starve.
    watch = start(program, "watch", node.runs, *config, "--to-lerobot", "--nice=0")
    node.run(10)
    picked, live_picked = episode(node, lambda: begin_by_service(node), ("success", "true"))
    assert node.call(node.record, Record.Request(start=False)).success
    node.has_ended()
    discarded, _ = episode(node, node.begin, ("discard", "true"))
    node.end()
    killed, live_killed = episode(node, node.begin)
    node.fusion.until(lambda: node.is_written(killed), "all of it is in the file")
    node.fusion.process.stop(signal.SIGKILL)
    node.close()
    node = Collecting(ros, start, tmp_path, ACTION)
    node.run(10)
    moved, live_moved = episode(node, node.begin)
    node.end()

    folders = {"converted": [picked, killed, moved], "discarded": [discarded]}
    expected = sorted((of.name, became) for became, each in folders.items() for of in each)
    summary = tmp_path / "dataset.watched" / "summary.json"

    def found():
        entries = json.loads(summary.read_text())["episodes"] if summary.exists() else []
        return sorted((of["name"], of["became"]) for of in entries) == expected and entries

    entries = waiting.until(found, "the episodes are converted", detail=lambda: watch.output)
    assert {of["name"] for of in entries if not of["ended"]} == {killed.name}
    shares = {"wrench": 1.0, "action": 1.0}
    assert all(of["valid"] == shares for of in entries if of["became"] == "converted"), entries
    assert all(of["warnings"] == [] for of in entries)
    node.fusion.process.stop()
    watch.stop(signal.SIGTERM)
    made = waiting.run([program, "to-lerobot", node.runs, *config])
    assert made.returncode == 0 and f"3 episodes, {6 * TICKS} frames" in made.stdout, made.stderr
    rows = rows_of(out)
    assert {name: task for name, (_, task) in rows.items()} == {
        picked.name: "pick the cup",
        killed.name: "move",
        moved.name: "move",
    }
    lives = {picked: live_picked, killed: live_killed, moved: live_moved}
    for folder, live in lives.items():
        columns, _ = rows[folder.name]
        expect_live(columns, live)
        expect_verified(folder, is_complete=folder != killed)
        # The mark came when the clock was at a tick, which has it.
        expected = (TICKS - 1) * [0.0] + (TICKS + 1) * [float(folder == picked)]
        assert columns["mark.success"].tolist() == expected
    told = waiting.run([program, "inspect", killed])
    assert "the recording was not ended: the node was killed" in told.stdout, told.stdout
