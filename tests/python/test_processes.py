"""Supervised processes that end early, end with an error, or do not end."""

import signal
import sys
from pathlib import Path

import processes
import pytest
import waiting
from processes import (
    Process,
    Processes,
    ProcessFailure,
    drops_in_words,
    executable,
    thread_seconds,
    thread_times,
)
from waiting import PATIENCE, until

REPOSITORY = Path(__file__).resolve().parents[2]
#: A program of Python: what comes first, then the word "ready", then what follows.
PROGRAM = "import signal, time; {}; print('ready', flush=True); {}"
#: How a signal's handler is set, and how a program waits for it.
ON_INTERRUPT, SLEEP = "signal.signal(signal.SIGINT, {})", "time.sleep(600)"


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch):
    """The tests are not about the time that a process takes for its end."""
    monkeypatch.setattr(processes, "END_S", PATIENCE)


def start(children, name, first, then=SLEEP):
    """Starts a Python process, and waits until it is ready."""
    process = children.start(name, [sys.executable, "-c", PROGRAM.format(first, then)])
    return ready(process)


def ready(process):
    until(lambda: process.log.read_text().startswith("ready"), f"{process.name} is ready")
    return process


def test_a_clean_end_is_no_problem(tmp_path):
    with Processes(tmp_path) as children:
        start(children, "clean", ON_INTERRUPT.format("lambda *_: exit(0)"))
        children.check()
    assert children.problems == [] and children.running == []


def test_an_early_end_names_the_process_its_exit_code_and_its_last_output(tmp_path):
    with Processes(tmp_path) as children:
        process = start(children, "short", "pass", "print('no such file'); exit(3)")
        with pytest.raises(
            ProcessFailure, match=r"(?s)short ended early with exit code 3.*no such"
        ):
            until(children.check, "the early end")
        with pytest.raises(ProcessFailure, match="short ended early"):
            process.peak_memory_mb()
    assert children.problems == ["short ended with exit code 3"]


def test_a_bad_end_and_a_signal_are_problems(tmp_path):
    with Processes(tmp_path) as children:
        start(children, "bad", ON_INTERRUPT.format("lambda *_: exit(7)"))
        start(children, "dead", ON_INTERRUPT.format("signal.SIG_DFL"))
    assert children.problems == ["dead ended with signal SIGINT", "bad ended with exit code 7"]


def test_a_process_that_does_not_end_is_killed_and_reported(tmp_path):
    program = PROGRAM.format(ON_INTERRUPT.format("signal.SIG_IGN"), SLEEP)
    process = ready(Process("deaf", [sys.executable, "-c", program], tmp_path))
    assert process.stop(timeout_s=0.3) == "deaf was killed: it still ran 0.3 s after SIGINT"


def ignoring_interrupts():
    """Sets what a shell sets for a background job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)


def test_children_of_a_background_job_get_the_signals(tmp_path):
    """A shell starts a background job with SIGINT and SIGQUIT ignored."""
    parent = f"""
import sys, time
sys.path.insert(0, {str(REPOSITORY / "scripts")!r})
from processes import Process
code = "import signal; print(*map(signal.getsignal, (2, 3)), flush=True); signal.pause()"
child = Process("child", [sys.executable, "-c", code], {str(tmp_path)!r})
while not child.log.read_text():
    child.check()
    time.sleep(0.01)
print(child.log.read_text(), child.stop(timeout_s={PATIENCE}))
"""
    run = waiting.run([sys.executable, "-c", parent], preexec_fn=ignoring_interrupts)
    assert "Handlers.SIG_IGN" not in run.stdout and "default_int_handler" in run.stdout, run
    assert "child ended with signal SIGINT" in run.stdout, run


def test_a_program_that_cannot_start_is_named(tmp_path, monkeypatch):
    with pytest.raises(ProcessFailure, match="robot: cannot start /no/such/program"):
        Process("robot", ["/no/such/program"], tmp_path)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    with pytest.raises(
        ProcessFailure, match="(?s)no executable no_such.*lib/robocache_ros/no_such"
    ):
        executable("no_such")


def test_cpu_time_and_memory_are_those_of_the_process(tmp_path):
    code = f"""import time
x = bytearray(50_000_000)
while time.process_time() < 0.6: pass
{SLEEP}"""
    process = Process("busy", [sys.executable, "-c", code], tmp_path)
    until(lambda: process.cpu_s() >= 0.5, "half a second of processor time")
    assert process.cpu_s() < 5
    assert 50 < process.peak_memory_mb() < 500
    assert process.stop() == "busy ended with signal SIGINT"


def test_drops_in_words():
    values = {
        "dropped": "4",
        "dropped.late": "3",
        "dropped.malformed": "1",
        "dropped.overload": "0",
    }
    assert drops_in_words(values) == "3 late, 1 malformed"
    assert drops_in_words({"dropped": "0", "dropped.late": "0"}) == ""


def test_the_time_of_threads_that_end_and_begin_is_counted():
    before = (10.0, {(1, 5): ("main", 4.0), (2, 6): ("worker", 2.0), (3, 7): ("worker", 3.0)})
    # The second has ended, another thread has its number, and one began and ended meanwhile.
    after = (14.0, {(1, 5): ("main", 5.0), (2, 9): ("worker", 0.5), (3, 7): ("worker", 3.25)})
    assert thread_seconds(before, after) == {"main": 1.0, "worker": 0.75, "ended": 2.25}
    # The two are read one after the other, and in steps.
    assert thread_seconds(before, (10.5, after[1]))["ended"] == 0.0


def test_threads_may_end_while_they_are_read(tmp_path):
    threads = "import threading; make = lambda: threading.Thread(target=int).start()"
    with Processes(tmp_path) as children:
        process = start(children, "threads", threads, "any(make() for _ in iter(int, 1))")
        readings = [thread_times(process.pid) for _ in range(200)]
    seen = [thread_seconds(*pair) for pair in zip(readings, readings[1:])]
    assert all(seconds >= 0.0 for spent in seen for seconds in spent.values())
    keys = set.intersection(*(set(threads) for _, threads in readings))
    assert process.pid in {number for number, _ in keys}
