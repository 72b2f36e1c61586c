"""`robocache.replay` and `robocache.replay_to`: the results of the command `robocache replay`, from Python.

The interrupt is a real one, in a process of its own.
"""

import gc
import signal
import sys

import arm_robot
import pytest
import yaml
from bags import write_bag
from held import Held, names_of_threads, sleeps, started
from replays import replay
from same_files import expect_same
from test_pipeline import bag_fixture, written_fixture  # noqa: F401
from waiting import exit_code, until
from wrench_robot import CONFIG

import robocache

PROGRAM = """
import signal, sys
import robocache
config, out, *bags = sys.argv[1:]

def heard(*signal_and_frame):
    print("heard", flush=True)
    signal.default_int_handler(*signal_and_frame)

signal.signal(signal.SIGINT, heard)
try:
    robocache.replay_to(bags, config, out, format="rows", jobs=1, backend="cpu")
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
        return names_of_threads().count("replay")

    (episode,) = robocache.replay([bag[0]], yaml.safe_load(CONFIG))
    for tensor in episode:
        assert tensor.tick and threads() > 0
        break
    gc.collect()
    # Linux lists a thread for a moment after its end.
    until(lambda: threads() == 0, "the thread ends")
    assert episode.summary is None


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
    with pytest.raises(ValueError, match="bags: expected at least one, found none"):
        robocache.replay([], CONFIG)
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
    expect_same(out / "bag.mcap", tmp_path / "out" / "bag.mcap")
    assert shares[-1] == ("bag", 1.0) and all(0 <= share <= 1 for _, share in shares)
    (outcome,) = robocache.replay_to(bag[0], config, out, backend="cpu")
    assert list(outcome) == ["kept"]

    def failing(name, share):
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        robocache.replay_to(bag[0], config, tmp_path / "third", progress=failing)
    with pytest.raises(ValueError, match="bags: expected at least one, found none"):
        robocache.replay_to([], config, tmp_path / "nothing")
    for arguments, error in (
        ({"format": "csv"}, "format: expected mcap, zarr or rows, found 'csv'"),
        ({"format": "zarr", "bf16": "f64"}, "bf16: expected uint16 or f32, found 'f64'"),
        ({"jobs": 0}, "jobs: expected at least 1, found 0"),
    ):
        with pytest.raises(ValueError, match=error):
            robocache.replay_to(bag[0], config, out, **arguments)


def test_an_interrupt_leaves_nothing_incomplete_and_the_next_run_goes_on(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(arm_robot.CONFIG)
    bags = [write_bag(tmp_path / f"all/{k}", arm_robot.robot(seed=k)) for k in range(3)]
    out, said = tmp_path / "out", tmp_path / "said"
    second = Held(bags[1] / "metadata.yaml")
    command = [sys.executable, "-c", PROGRAM, config, out, *bags]
    with said.open("w") as file, started(command, stdout=file, stderr=file) as process:
        second.wait(process)
        process.send_signal(signal.SIGINT)
        until(lambda: said.read_text() == "heard\n", "the program hears the signal")
        # After its handler, it sleeps only to wait for the run. The run has been told to stop then.
        until(lambda: sleeps(process), "the program waits for the run")
        second.give()
        # As any program that Python ends by an interrupt.
        assert exit_code(process, "the interrupted program") == -signal.SIGINT, said.read_text()
    lines = said.read_text().splitlines()
    assert lines[:2] == ["heard", "interrupted"] and lines[-1] == "KeyboardInterrupt"

    assert {path.name for path in out.iterdir()} == {"rows.zarr.parts", "replay.json"}
    assert [part.name for part in (out / "rows.zarr.parts").iterdir()] == ["0"]

    outcomes = robocache.replay_to(bags, config, out, format="rows", backend="cpu")
    assert [kind for outcome in outcomes for kind in outcome] == ["kept", "done", "done"]
    replay(config, tmp_path / "whole", *bags, options=["--format", "rows"])
    expect_same(out, tmp_path / "whole", apart_from=["replay.json"])
    assert all((of / "replay.json").stat().st_size for of in (out, tmp_path / "whole"))
