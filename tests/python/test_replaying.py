"""`robocache.replay` and `robocache.replay_to`: the results of the command `robocache replay`, from Python.

The interrupt is a real one, in a process of its own.
"""

import gc
import os
import shutil
import signal
import subprocess
import sys
from functools import partial

import arm_robot
import pytest
import yaml
from bags import write_bag
from replays import files, replay
from test_pipeline import bag_fixture, written_fixture  # noqa: F401
from wrench_robot import CONFIG

import robocache

PROGRAM = """
import sys
from functools import partial
import robocache
form, config, out, *bags = sys.argv[1:]
try:
    robocache.replay_to(bags, config, out, format=form, jobs=1, backend="cpu")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
print("complete", flush=True)
"""


def test_replay_gives_the_bytes_of_the_command(bag, written):
    (episode,) = robocache.replay(bag[0], CONFIG, backend="cpu", digest=True)
    assert (episode.name, episode.task, episode.summary) == ("bag", None, None)
    with pytest.raises(RuntimeError, match="expected an iteration to the end"):
        _ = episode.missing
    for _ in range(2):  # each iteration begins again
        assert [bytes(tensor.message) for tensor in episode] == written
    assert episode.summary["ticks"] == len(written)
    assert episode.missing == [] and episode.problems == []


def test_a_loop_that_is_left_ends_its_thread(bag):
    def threads():
        names = [
            open(f"/proc/self/task/{task}/comm").read().strip()
            for task in os.listdir("/proc/self/task")
        ]
        return names.count("replay")

    (episode,) = robocache.replay([bag[0]], yaml.safe_load(CONFIG))
    for tensor in episode:
        assert tensor.tick and threads() > 0
        break
    gc.collect()
    assert threads() == 0 and episode.summary is None


def test_replay_takes_the_arguments_of_the_command(bag):
    def ticks(**arguments):
        (episode,) = robocache.replay(bag[0], CONFIG, **arguments)
        return [tensor.tick for tensor in episode]

    whole = ticks()
    assert ticks(start=0.5) == whole[50:] and ticks(start="0.5", end=0.6) == whole[50:60]
    assert len(ticks(rate_hz=10)) == 9
    other = robocache.replay(bag[0], CONFIG, remap={"wrench": "/nothing"})[0]
    assert list(other) and other.missing == ["/nothing"]
    for arguments, error in (
        (
            {"time": "noon"},
            "time: expected auto, receive, clock, header or header:/TOPIC, found 'noon'",
        ),
        ({"backend": "tpu"}, "backend: expected auto, cpu or cuda, found 'tpu'"),
        ({"remap": ["a"]}, "expected FROM:=TO, found 'a'"),
        ({"start": "soon"}, "start: expected seconds"),
        ({"threads": 0}, "threads: expected at least 1, found 0"),
        ({"device": "gpu"}, "device: expected the number of a GPU"),
    ):
        with pytest.raises(ValueError, match=error):
            list(robocache.replay(bag[0], CONFIG, **arguments)[0])
    with pytest.raises(ValueError, match="No such file"):
        robocache.replay("/nowhere", CONFIG)
    with pytest.raises(RuntimeError, match="/clock"):
        ticks(time="clock")


def test_replay_to_writes_the_bytes_of_the_command(bag, written, tmp_path):
    shares = []
    out = tmp_path / "again"

    def progress(name, share):
        shares.append((name, share))

    config = tmp_path / "config.yaml"
    (outcome,) = robocache.replay_to(bag[0], config, out, backend="cpu", progress=progress)
    assert outcome["done"]["ticks"] == len(written)
    assert (out / "bag.mcap").read_bytes() == (tmp_path / "out" / "bag.mcap").read_bytes()
    assert shares[-1] == ("bag", 1.0) and all(0 <= share <= 1 for _, share in shares)
    (outcome,) = robocache.replay_to(bag[0], config, out, backend="cpu")
    assert list(outcome) == ["kept"]

    def failing(name, share):
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        robocache.replay_to(bag[0], config, tmp_path / "third", progress=failing)
    for arguments, error in (
        ({"format": "csv"}, "format: expected mcap, zarr or rows, found 'csv'"),
        ({"format": "zarr", "bf16": "f64"}, "bf16: expected uint16 or f32, found 'f64'"),
        ({"jobs": 0}, "jobs: expected at least 1, found 0"),
    ):
        with pytest.raises(ValueError, match=error):
            robocache.replay_to(bag[0], config, out, **arguments)


@pytest.mark.parametrize("form", ["mcap", "rows"])
def test_an_interrupt_leaves_nothing_incomplete_and_the_next_run_goes_on(tmp_path, form):
    config = tmp_path / "config.yaml"
    config.write_text(arm_robot.CONFIG)
    bags = [write_bag(tmp_path / f"all/{k}", arm_robot.robot(600, seed=k)) for k in range(4)]
    # More, so that a fast machine has not done all when the signal comes.
    bags += [shutil.copytree(bags[3], tmp_path / f"all/{k}") for k in range(4, 40)]
    out, parts = tmp_path / "out", "rows.zarr.parts"
    first = out / ("0.mcap" if form == "mcap" else f"{parts}/0")
    command = [sys.executable, "-c", PROGRAM, form, config, out, *bags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # If the tests run in the background of a shell, they ignore the signal, and so would their children.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(list(map(str, command)), preexec_fn=heard, **pipes) as process:
        while not first.exists():
            assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        said, error = process.communicate(timeout=60)
    # As any program that Python ends by an interrupt.
    assert process.returncode == -signal.SIGINT, error
    assert said == "interrupted\n" and error.rstrip().endswith("KeyboardInterrupt")

    results = {path.name for path in (out if form == "mcap" else out / parts).iterdir()}
    results.discard("replay.json")
    assert first.name in results and len(results) < len(bags)
    assert not list(out.rglob("*.partial")) and not (out / "rows.zarr").exists()
    assert (out / "replay.json").exists() and not (out / "replay.json.journal").exists()

    outcomes = robocache.replay_to(bags, config, out, format=form, backend="cpu")
    kinds = [kind for outcome in outcomes for kind in outcome]
    assert kinds.count("kept") == len(results) and kinds.count("done") == len(bags) - len(results)
    assert kinds[0] == "kept" and kinds[-1] == "done"
    replay(config, tmp_path / "whole", *bags, options=["--format", form])
    found, expected = files(out), files(tmp_path / "whole")
    ledgers = [
        of.pop(next(path for path in of if path.name == "replay.json")) for of in (found, expected)
    ]
    assert found == expected and all(ledgers)
