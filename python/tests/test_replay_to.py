"""`robocache.replay_to` under a real interrupt: what it leaves, and that the next run goes on from there."""

import shutil
import signal
import subprocess
import sys

import pytest
from arm_robot import config_fixture, robot  # noqa: F401 (a fixture)
from bags import write_bag
from replays import files, replay

import robocache

PROGRAM = """
import sys
import robocache
form, config, out, *bags = sys.argv[1:]
try:
    robocache.replay_to(bags, config, out, format=form, jobs=1, backend="cpu")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
print("complete", flush=True)
"""


@pytest.mark.parametrize("form", ["mcap", "rows"])
def test_an_interrupt_leaves_nothing_incomplete_and_the_next_run_goes_on(config, tmp_path, form):
    bags = [write_bag(tmp_path / f"all/{k}", robot(600, seed=k)) for k in range(4)]
    # More, so that a fast machine has not done all when the signal comes.
    bags += [shutil.copytree(bags[3], tmp_path / f"all/{k}") for k in range(4, 40)]
    out, parts = tmp_path / "out", "rows.zarr.parts"
    first = out / ("0.mcap" if form == "mcap" else f"{parts}/0")
    command = [sys.executable, "-c", PROGRAM, form, config, out, *bags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(list(map(str, command)), **pipes) as process:
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
