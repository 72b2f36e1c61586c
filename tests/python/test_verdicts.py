"""Verdicts of pytest runs: tests/verdicts.py and what it uses. Runs of pytest are real ones, on small tests."""

import contextlib
import importlib.metadata
import os
import re
import signal
import sys
import time

import evidence
import flaky
import pytest
import waiting
from conftest import REPOSITORY
from evidence import Evidence, Times, Watch, Witness
from held import cpu_s, started
from scene import backtraces
from waiting import until

#: Loads the hooks as tests/conftest.py does, with another list of flaky tests.
CONFTEST = f"""
from pathlib import Path

hooks = {{"__file__": {str(REPOSITORY / "tests/conftest.py")!r}}}
exec(Path(hooks["__file__"]).read_text(), hooks)
globals().update({{name: hook for name, hook in hooks.items() if name.startswith("pytest_")}})

import flaky

flaky.LIST = Path(__file__).with_name("flaky.toml")
"""
#: What the small tests use.
COMMON = """
import os, subprocess, time
from pathlib import Path

import pytest
import waiting

def blame():
    # A pause of the machine, which covers the whole test.
    now = time.monotonic()
    with open(os.environ["ROBOCACHE_WITNESS"], "a") as notes:
        notes.write(f"{now:.4f} {now + 60:.4f}\\n")

def late():
    waiting.until(lambda: False, "an event")

def count(name):
    with open(Path(__file__).with_name(name), "a+") as file:
        file.write("x")
        file.seek(0)
        return len(file.read())

def late_once(name):
    if count(name) == 1:
        blame()
        late()

# A pause of this machine must not end a test that passes.
pytestmark = pytest.mark.timeout(60)
"""
#: Of the other plugins of pytest here, one imports much, and one needs a port of the controller.
FEW_PLUGINS = " ".join(
    f"-p no:{plugin.name}"
    for plugin in importlib.metadata.entry_points(group="pytest11")
    if plugin.name not in ("timeout", "xdist")
)
ENTRY = '[[flaky]]\ntest = "test_it.py::test_late"\nsince = 2026-11-28\ncause = "a pause"\n'


class Run:
    """A run of pytest on one file of tests."""

    def __init__(self, folder, tests, *options, at="test_it.py", listed=""):
        self.folder = folder
        for name, text in {
            "pytest.ini": f"[pytest]\naddopts = {FEW_PLUGINS}\n",
            "conftest.py": CONFTEST,
            "flaky.toml": listed,
            at: COMMON + tests,
        }.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        own = ("PYTEST_", "ROBOCACHE_VERDICTS", "ROBOCACHE_WITNESS")
        env = {key: value for key, value in os.environ.items() if not key.startswith(own)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        env["ROBOCACHE_PATIENCE_S"] = "0.5"
        done = waiting.run(command, cwd=folder, env=env)
        self.code, self.said = done.returncode, done.stdout + done.stderr

    def rounds(self, name):
        """How often a test ran that counts its runs in this file."""
        (file,) = self.folder.rglob(name)
        return len(file.read_text())

    @property
    def summary(self):
        """The last line, without the time."""
        return re.sub(r" in .*", "", self.said.splitlines()[-1])


def test_a_late_test_is_red_if_the_machine_did_nothing(tmp_path):
    # A pause of this machine must not count.
    tests = "def test_late():\n    os.environ['ROBOCACHE_WITNESS'] = 'none'\n    count('late')\n    late()\n"
    run = Run(tmp_path, tests, "--second-try")
    assert run.code == 1 and run.rounds("late") == 1, run.said
    assert "not in 0.5 s: an event" in run.said and "the machine paused for 0.0 s" in run.said
    assert run.summary == "1 failed" and "to blame" not in run.said


def test_slow_tests_run_by_the_name_of_their_group_alone(tmp_path):
    test = "@pytest.mark.slow({!r})\ndef test_{}():\n    count({!r})\n\n"
    tests = test.format("kills", "one", "one") + "def test_usual():\n    count('usual')\n"
    for options, name in (([], "usual"), (["--slow", "kills"], "one")):
        run = Run(tmp_path, tests, *options)
        assert (run.summary, run.rounds(name)) == ("1 passed, 1 deselected", 1), run.said
    wrong = Run(tmp_path, test.format("kill", "one", "one"))
    assert wrong.code == 4 and "expected one of" in wrong.said


#: The name says which failures are blamed on the machine.
KINDS = """
@pytest.fixture(autouse=True)
def paused():
    blame()

def test_blamed_wait():
    late()

def test_blamed_command():
    waiting.run(["sleep", "600"])

def test_blamed_timeout_of_a_command():
    subprocess.run(["sleep", "600"], timeout=0.5)

@pytest.mark.timeout(0.5)
def test_blamed_limit_of_its_own():
    try:
        time.sleep(600)
    except Exception:
        pass

@pytest.fixture
def slow():
    late()

def test_blamed_fixture(slow):
    pass

@pytest.fixture
def slow_end():
    yield
    late()

def test_wrong_before_a_late_end(slow_end):
    assert count("wrong") == 0

def test_wrong_value_behind_a_wait():
    try:
        assert count("wrong") == 0
    finally:
        late()

def test_wrong_text():
    assert not "Timeout (>3.0s) from pytest-timeout, not in 3 s: NotInTime"

def test_wrong_exit_code():
    subprocess.run(["false"], check=True)

def test_good():
    pass
"""


def test_what_is_wrong_is_told_from_what_is_late(tmp_path):
    run = Run(tmp_path, KINDS, "--second-try")
    names = re.findall(r"def (test_\w+)", KINDS)
    wrong = {name for name in names if name.startswith("test_wrong")}
    blamed = re.findall(r"to blame for test_it.py::(\w+); not tried again", run.said)
    assert run.code == 1 and set(blamed) == {*names} - wrong - {"test_good"}, run.said
    assert run.rounds("wrong") == 2, "nothing is tried again"
    # Seen while they ran: processes that a wait has killed, or would have outlived the test.
    assert len(re.findall(r"^-+ process \d+: sleep 600", run.said, re.MULTILINE)) == 1, run.said


ONE_FLAKY = """
def test_late():
    late_once("late")
"""
TWO_FLAKY = f"""{ONE_FLAKY}
@pytest.mark.timeout(60 if Path(__file__).with_name("limit").exists() else 0.5)
@pytest.mark.parametrize("how", ["a limit: x::y@z"])
def test_limit(how):
    if count("limit") == 1:
        blame()
        time.sleep(600)

def test_good():
    count("good")
"""


def test_a_test_that_passes_alone_three_times_is_flaky_and_the_run_green(tmp_path):
    run = Run(tmp_path, TWO_FLAKY, "--second-try", "tests/ros", at="tests/ros/test_it.py")
    assert run.code == 0 and run.summary == "1 passed, 2 flaky", run.said
    assert [run.rounds(name) for name in ("late", "limit", "good")] == [4, 4, 1]
    name = "tests/ros/test_it.py::test_late"
    (line,) = re.findall(rf"^FLAKY {name}: (.*)", run.said, re.MULTILINE)
    assert line.startswith("the machine paused for ")
    assert re.search(r"; alone 3 of 3 passed \([\d.]+ s [\d.]+ s [\d.]+ s\)$", line)
    # What is printed for the list fits, once the cause is written.
    lines = re.findall(r"^  (\[\[flaky.*|\w+ = .*)", run.said, re.MULTILINE)
    listed = tmp_path / "printed.toml"
    listed.write_text("\n".join(lines).replace('cause = ""', 'cause = "a pause"'))
    assert list(flaky.entries(listed)) == [name, f"{name[:-4]}limit[a limit: x::y@z]"]
    assert "not in 0.5 s: an event" in run.said and "not in 0.5 s: the end of the" in run.said


def test_a_test_that_fails_alone_as_well_is_red(tmp_path):
    tests = "def test_late():\n    late_once('late')\n    assert count('all') != 2, 'wrong'\n"
    run = Run(tmp_path, tests, "--second-try")
    assert run.code == 1 and run.summary == "1 failed", run.said
    assert (
        "test_it.py::test_late fails alone as well, round 2:" in run.said
        and "FLAKY" not in run.said
    )


def test_a_test_that_was_flaky_before_is_red(tmp_path):
    run = Run(tmp_path, ONE_FLAKY, "--second-try", listed=ENTRY)
    assert run.code == 1 and run.rounds("late") == 4, run.said
    assert "red: it was flaky before, since 2026-11-28: a pause" in run.said


def test_more_than_two_late_tests_are_red_and_not_tried_again(tmp_path):
    tests = "".join(f"def test_{k}():\n    late_once('late')\n    late()\n" for k in range(3))
    tests = tests.replace("    late()\n", "    blame()\n    late()\n")
    run = Run(tmp_path, tests, "--second-try")
    assert run.code == 1 and run.rounds("late") == 3, run.said
    assert "3 tests were not in time: more than 2, so none is tried again" in run.said


@pytest.mark.parametrize("isolated", [False, True])
def test_workers_have_the_same_verdicts(tmp_path, isolated):
    grouped = ONE_FLAKY.replace("def", "@pytest.mark.xdist_group('one')\ndef")
    python = f"{REPOSITORY / 'scripts/isolated.sh'} {sys.executable}"
    workers = ["--tx", f"2*popen//python={python}"] if isolated else ["--numprocesses=2"]
    run = Run(tmp_path, grouped, *workers, "--dist=loadgroup", "--second-try")
    assert run.code == 0 and run.summary == "1 flaky", run.said
    assert run.rounds("late") == 4 and "FLAKY test_it.py::test_late: " in run.said


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--timeout=60"], 0)])
def test_a_test_has_a_limit_of_three_patiences_unless_the_command_line_has_one(
    tmp_path, options, code
):
    run = Run(tmp_path, "pytestmark = []\ndef test_long():\n    time.sleep(2)\n", *options)
    assert run.code == code, run.said
    assert ("not in 1.5 s: the end of the test" in run.said) == (code == 1)


def test_the_flaky_tests_of_all_phases_count(tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOCACHE_VERDICTS", str(tmp_path / "verdicts"))
    none = tmp_path / "flaky.toml"
    none.write_text("")
    assert flaky.judge({"a": "why", "b": "why"}, none)[0]
    # Without a flaky test, a phase has no part in it.
    assert flaky.judge({}, none) == (True, [])
    ok, lines = flaky.judge({"c": "why"}, none)
    assert not ok and lines[-1] == "red: 3 flaky tests in this run, and at most 2 may be"


@pytest.mark.parametrize(
    "text",
    [
        "flaky = [1]",
        "flaky = 1",
        "[flaky]\ntest = 'a'",
        "[[other]]\ntest = 'a'",
        ENTRY + ENTRY,
        ENTRY.replace('"a pause"', '""'),
        ENTRY.replace("2026-11-28", '"soon"'),
        ENTRY.replace("cause", "why"),
        ENTRY + "more = 1",
        ENTRY.replace("test", "#"),
        ENTRY + "no TOML",
    ],
)
def test_a_malformed_list_of_flaky_tests_is_an_error(tmp_path, text):
    (tmp_path / "flaky.toml").write_text(text)
    with pytest.raises(ValueError):
        flaky.entries(tmp_path / "flaky.toml")


def test_the_list_of_flaky_tests_is_well_formed():
    assert all((REPOSITORY / name.split("::")[0]).exists() for name in flaky.entries())


@pytest.mark.parametrize(
    ("blamed", "numbers"),
    [
        (True, {"paused_s": 30}),
        (False, {"paused_s": 29}),
        (True, {"stolen_s": 30}),
        (False, {"stolen_s": 29}),
        (True, {"asked_s": 90, "got_s": 29}),
        (False, {"asked_s": 90, "got_s": 31}),
        # They slept.
        (False, {"asked_s": 8, "got_s": 1}),
        # Eight threads that had both processors, and half of them.
        (False, {"asked_s": 8 * 90, "got_s": 2 * 90}),
        (False, {"asked_s": 8 * 90, "got_s": 90}),
        (True, {"asked_s": 8 * 90, "got_s": 50}),
    ],
)
def test_the_machine_is_blamed_for_pauses_and_for_a_shortage(blamed, numbers):
    fields = ("paused_s", "longest_pause_s", "stolen_s", "got_s", "asked_s")
    given = dict.fromkeys(fields, 0) | numbers
    assert Evidence(waited_s=90, patience_s=90, processors=2, **given).blames_machine == blamed


def test_a_wait_without_a_first_look_has_no_times():
    found = Watch(1).evidence()
    assert (found.got_s, found.asked_s) == (0, 0) and not found.blames_machine


#: Computes for two seconds, and says what the evidence is.
BUSY = f"""
import sys, time
sys.path.insert(0, {str(REPOSITORY / "tests")!r})
from evidence import Watch
watch = Watch(patience_s=2)
watch.look(now=True)
while time.monotonic() < watch.began + 2:
    pass
found = watch.evidence()
print(found.waited_s, found.asked_s, found.got_s, found.blames_machine)
"""


def test_a_shortage_of_processor_time_is_seen():
    pinned = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    loop = [*pinned, "sh", "-c", "ulimit -t 60; while :; do :; done"]
    with contextlib.ExitStack() as loops:
        for process in [loops.enter_context(started(loop)) for _ in range(3)]:
            until(lambda process=process: cpu_s(process) > 0.1, "a loop computes")
        said = waiting.run([*pinned, sys.executable, "-c", BUSY], check=True).stdout.split()
    waited, asked, got = map(float, said[:3])
    # It gets a quarter. If there are others on this processor, it gets less.
    assert asked > 0.75 * waited and got < 0.3 * asked and said[3] == "True", said


def test_a_thread_that_never_gets_a_processor_asks_for_one(monkeypatch):
    times = {1: Times(0, 0, 0, True), 2: Times(0, 0, 0, False), 3: Times(5, 7, 1, True)}
    monkeypatch.setattr(evidence, "processor_times", lambda: times)
    watch = Watch(90)
    watch.look(now=True)
    watch._looked -= 60
    times = times | {3: Times(5 + 10**7, 7 + 10**8, 2, True)}
    found = watch.evidence()
    # The first thread waited for all the time, the second slept, the third waited for 0.1 s.
    assert found.got_s == 0.01 and 60 <= found.asked_s - 0.11 < 120


def test_the_witness_notes_a_pause(monkeypatch):
    monkeypatch.setenv(evidence.WITNESS, "")  # the one of this run comes back
    began, witness = time.monotonic(), Witness()
    try:

        def noted():
            os.kill(witness._process.pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(witness._process.pid, signal.SIGCONT)
            time.sleep(0.1)
            return evidence.pauses(began, time.monotonic())

        found = until(noted, "a pause of the witness")
        assert 0.2 < max(found)
        # Only the part within the wait counts.
        assert evidence.pauses(began - 9, began) == []
    finally:
        witness.end()
    assert evidence.WITNESS not in os.environ


def test_a_command_that_does_not_end_is_killed_with_its_children():
    with pytest.raises(waiting.NotInTime, match="not in 1 s: sh -c .*ends(?s:.*)said") as late:
        waiting.run(["sh", "-c", "echo said; sleep 600; :"], timeout=1)
    titles = [title for title, _ in late.value.killed]
    assert len(titles) == 2 and all("sleep 600" in title for title in titles)
    assert not [title for title, _ in backtraces() if "sleep 600" in title]
