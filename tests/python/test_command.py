"""`robocache replay` inside a program of Python, as to-lerobot and the Ray runner call it.

Signals are real ones, in a process of its own.
"""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys

import pytest
import waiting
from arm_robot import (  # noqa: F401
    CONFIG,
    bags_fixture,
    config_fixture,
    episodes_fixture,
    robot,
)
from bags import write_bag
from held import Held, started
from replays import files, replay
from same_files import expect_same
from waiting import communicate, exit_code, until

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
from robocache import _native  # noqa: E402
from robocache.node import replay_command, replay_options  # noqa: E402

PROGRAM = """
import signal, sys
from robocache.node import replay_command, replay_options
bag, config, out, *options = sys.argv[1:]

def heard(*signal_and_frame):
    print("heard", flush=True)
    signal.default_int_handler(*signal_and_frame)

signal.signal(signal.SIGINT, heard)

def run():
    return replay_command.replay([bag], config, out, **replay_options.given(options))[0]

sys.exit(replay_command.exit_code(run))
"""
FORMS = ("mcap", "zarr", "rows")


def program(*words, **options):
    """Starts the program."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return started([sys.executable, "-c", PROGRAM, *words], env=environment, **options)


def kinds(outcomes):
    return [kind for outcome in outcomes for kind in outcome]


def replayed(bags, config, out, *words, **options):
    """`replay_command.replay` with words of the command line."""
    return replay_command.replay(bags, config, out, **replay_options.given(words), **options)


def test_words_of_the_command_are_values_by_name():
    words = ["--rate-hz=30", "--remap=a:=b", "--remap", "c:=d", "--replace", "--rows=a,b"]
    expected = {"rate_hz": "30", "remap": ["a:=b", "c:=d"], "replace": True, "rows": ["a,b"]}
    assert replay_options.given(words) == expected
    assert replay_options.given(words, format="zarr") == {"format": "zarr", **expected}
    with pytest.raises(ValueError, match="'--format <FORMAT>' cannot be used multiple times"):
        replay_options.given(["--format=rows"], format="zarr")
    with pytest.raises(ValueError, match="format: expected one value, found two"):
        replay_options.given({"format": "rows"}, format="zarr")
    with pytest.raises(TypeError, match="unexpected option of robocache replay: 'fast'"):
        _native.ReplayRequest([], "config.yaml", "out", fast=True)


def test_the_helps_of_options_are_those_of_the_command():
    run = waiting.run([sys.executable, "-m", "robocache", "replay", "--help"])
    found = " ".join(run.stdout.split())
    for option in (*replay_options.COMMON, *replay_options.FILES):
        value = "" if option.metavar is None else f" <{option.metavar}>"
        repeats = "..." if option.repeats else ""
        for text in (f"{option.word}{value}", option.help, repeats, *option.choices):
            assert text in found, text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rate-hz=often"], "--rate-hz: invalid float literal: 'often'"),
        (["--format=csv"], "--format: expected mcap, zarr or rows, found 'csv'"),
        (["--bf16=f32"], "--bf16: expected --format zarr or rows, found mcap, which has bf16"),
        (["--device=0,x"], "--device: expected a number or all, found 'x'"),
        (["--share=3/2"], "--share: expected K/N with K from 1 to N, found '3/2'"),
        (["--start=1", "--episodes=list.csv"], "'--start <START>' cannot be used with"),
        (["--fast"], "unexpected argument '--fast' found"),
    ],
)
def test_an_option_that_does_not_fit_is_named(tmp_path, options, message):
    places = [tmp_path], tmp_path / "config.yaml", tmp_path / "out"
    for call in (replay_command.replay, replay_command.made_of):
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            call(*places, **replay_options.given(options))
        assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_replayed_is_an_error(bags, config, tmp_path):
    with pytest.raises(ValueError, match=r"no\.mcap"):
        replayed([tmp_path / "no.mcap"], config, tmp_path / "out")
    with pytest.raises(RuntimeError, match=r"no\.yaml: expected a readable configuration"):
        replayed(bags, tmp_path / "no.yaml", tmp_path / "out")


@pytest.mark.parametrize("form", FORMS)
def test_results_and_outcomes_are_those_of_the_command(bags, config, tmp_path, capfd, form):
    wrong = tmp_path / "wrong.mcap"
    wrong.write_bytes(b"no bag")
    options = [f"--format={form}", "--backend=cpu"]
    code, outcomes = replayed([*bags, wrong], config, tmp_path / "out", *options)
    said = capfd.readouterr()
    assert code == 1 and said.out == ""
    expected = replay(config, tmp_path / "alone", *bags, wrong, options=options, expect=1)
    assert outcomes == [{kind: summary} for kind, summary in expected]
    (failure,) = replay_command.failures(outcomes)
    assert failure.startswith("wrong: failed: ")
    expect_same(tmp_path / "out", tmp_path / "alone")
    code, outcomes = replayed(bags, config, tmp_path / "out", *options)
    assert code == 0 and kinds(outcomes) == ["kept"] * 3


def test_shares_are_taken_by_another_run(bags, config, tmp_path):
    shares = [tmp_path / f"share{number}" for number in (1, 2)]
    for number, out in enumerate(shares, start=1):
        options = ["--format=rows", f"--share={number}/2", "--parts-only"]
        code, outcomes = replayed(bags, config, out, *options)
        assert code == 0 and len(outcomes) == number and not (out / "rows.zarr").exists()
    takes = [f"--take={out}" for out in shares]
    code, outcomes = replayed(bags, config, tmp_path / "out", "--format=rows", *takes)
    assert code == 0 and kinds(outcomes) == ["kept"] * 3
    replay(config, tmp_path / "alone", *bags, options=["--format=rows"])
    name = "rows.zarr"
    expect_same(tmp_path / "out" / name, tmp_path / "alone" / name)


def broken_off(out):
    """Leaves a complete result as a run does that was ended without a word."""
    ledger = json.loads((out / "replay.json").read_text())
    lines = [
        json.dumps({"Added": {"result": result, "entry": entry}})
        for result, entry in ledger.pop("episodes").items()
    ]
    (out / "replay.json.journal").write_text("\n".join([*lines, lines[0][:50]]))
    (out / "replay.json").write_text(json.dumps({**ledger, "episodes": {}}))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_result_in_another_folder_is_not_made_again(bags, config, tmp_path, form, is_whole):
    out, share = tmp_path / "out", tmp_path / "share"
    options = [f"--format={form}", "--backend=cpu"]
    given = [*options, "--parts-only"]
    # At first the folder `out` is missing, so no result is kept.
    replayed(bags[:1], config, tmp_path / "first", *given, kept_in=out)
    replayed([bags[0], bags[2]], config, out, *(options if is_whole else given))
    if not is_whole:
        broken_off(out)
    before = files(out)
    code, outcomes = replayed(bags, config, share, *given, kept_in=out)
    assert code == 0 and kinds(outcomes) == ["kept", "done", "kept"]
    expect_same(out, before)
    made = {path.relative_to(share).parts for path in share.rglob("*") if path.is_file()}
    of_episode = {parts for parts in made if parts[0] != "replay.json"}
    assert of_episode and all("robot1" in "/".join(parts) for parts in of_episode)
    # The run that joins both has all.
    code, outcomes = replayed(bags, config, out, *options, f"--take={share}")
    assert code == 0 and kinds(outcomes) == ["kept"] * 3
    # Of another configuration it is no result.
    config.write_text(CONFIG.replace("max_age_ms: 50", "max_age_ms: 40"))
    again = [*given, "--replace"]
    code, outcomes = replayed(bags, config, tmp_path / "again", *again, kept_in=out)
    assert code == 0 and kinds(outcomes) == ["done"] * 3


def test_a_store_that_the_ledger_does_not_describe_has_no_result(bags, config, tmp_path):
    out, options = tmp_path / "out", ["--format=rows", "--backend=cpu"]
    replayed(bags[:1], config, out, *options)
    about = out / "rows.zarr/zarr.json"
    about.write_text(about.read_text() + "\n")
    _, outcomes = replayed(bags[:1], config, tmp_path / "share", *options, kept_in=out)
    assert kinds(outcomes) == ["done"]
    ledger = out / "replay.json"
    ledger.write_text(json.dumps({**json.loads(ledger.read_text()), "format": 2}))
    with pytest.raises(RuntimeError, match="expected format 1, found 2: another version"):
        replayed(bags[:1], config, tmp_path / "other", *options, kept_in=out)


def test_stderr_has_the_bar_and_the_warnings_above_it(bags, config, tmp_path):
    folder = tmp_path / "numbered"
    folder.mkdir()
    for number, bag in enumerate(bags):
        (file,) = bag.glob("*.mcap")
        # The first is missing, so they are not the parts of one bag.
        os.link(file, folder / f"robot_{number + 1}.mcap")
    terminal, stderr = pty.openpty()
    said = b""
    with program(
        folder, config, tmp_path / "out", stderr=stderr, stdout=subprocess.PIPE
    ) as process:
        os.close(stderr)
        try:
            while more := os.read(terminal, 4096):
                said += more
        except OSError:  # the terminal has no other end any more
            pass
        assert communicate(process, "the replay")[0] == b"" and process.returncode == 0
    assert b"each file is a bag of its own: expected number 0" in said
    assert b"/3 episodes, " in said and b"times real time" in said


def test_an_interrupt_does_not_wait_for_the_search_of_episodes(bags, config, tmp_path):
    out, listed = tmp_path / "out", Held(tmp_path / "list.csv")
    with program(bags[0], config, out, f"--episodes={listed.path}") as process:
        listed.wait(process)
        process.send_signal(signal.SIGINT)
        assert exit_code(process, "the interrupted run") == 130 and not out.exists()


@pytest.fixture
def folder(bags, tmp_path):
    """A folder of three bags."""
    for number in range(3):
        shutil.copytree(bags[number], tmp_path / f"bags/{number}")
    return tmp_path / "bags"


def test_a_run_that_is_ended_at_once_leaves_what_is_complete(folder, config, tmp_path):
    out, said = tmp_path / "out", tmp_path / "said"
    shutil.rmtree(folder / "1")
    write_bag(folder / "1", robot(1000))
    # It cannot be done before the signal comes, however fast it is.
    third = Held(folder / "2/metadata.yaml")
    begun = out / "1.mcap.partial"
    with (
        said.open("w") as file,
        program(folder, config, out, "--jobs=1", stdout=file, stderr=file) as process,
    ):
        until(lambda: begun.exists() or third.is_awaited(), "the second episode", nap=0.001)
        process.send_signal(signal.SIGTERM)
        assert exit_code(process, "the ended run") == -signal.SIGTERM
    assert said.read_text() == ""
    third.give()
    complete = len(list(out.glob("*.mcap")))
    assert complete in (1, 2)
    code, outcomes = replayed([folder], config, out)
    assert code == 0 and not begun.exists()
    # The entry of a result comes after it, so a signal between them costs one result.
    kept = kinds(outcomes).count("kept")
    assert kept in (complete, complete - 1) and kinds(outcomes)[0] == "kept"
    assert kinds(outcomes)[kept:] == ["done"] * (3 - kept)


def run(*words):
    command = [sys.executable, "-m", *map(str, words)]
    return waiting.run(command)


@pytest.mark.parametrize("command", [["robocache", "to-lerobot"], ["robocache.ray", "replay"]])
def test_the_options_of_other_commands_are_those_of_replay(command, tmp_path):
    helps = [run("robocache", "replay", "--help"), run(*command, "--help")]
    of_replay, found = (
        set(re.findall(r"^ +(--[a-z0-9-]+)", text.stdout, re.MULTILINE)) for text in helps
    )
    own = {"--share", "--parts-only", "--take", "--no-digest", "--json"}
    if command[1] == "to-lerobot":
        own |= {"--format", "--bf16", "--rows"}
    assert len(of_replay) > 15 and of_replay - own <= found and not own & found
    # Their help is the same, whatever the width of the lines.
    words = [" ".join(text.stdout.split()) for text in helps]
    assert all("episodes share, or all" in text for text in words)
    # A wrong one ends the command as a wrong command line does.
    places = [tmp_path, "--config", "robot.yaml", "--out", tmp_path / "out"]
    for wrong in (["--backend=tpu"], ["--start=1", "--episodes=list.csv"]):
        ended = run(*command, *places, *wrong)
        assert ended.returncode == 2 and wrong[0].split("=")[0] in ended.stderr
    assert not list(tmp_path.iterdir())
