"""Supervised processes that end early, end with an error, or do not end."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import Process, Processes, ProcessFailure, drops_in_words, executable

REPOSITORY = Path(__file__).resolve().parents[2]
READY_THEN = "import signal, time; print('ready', flush=True); "


def start(processes, name, code):
    """Starts a Python process and waits for its first line of output."""
    process = processes.start(name, [sys.executable, "-c", READY_THEN + code])
    deadline = time.monotonic() + 60
    while not process.log.read_text().startswith("ready") and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


def test_a_clean_end_is_no_problem(tmp_path):
    code = "signal.signal(signal.SIGINT, lambda *_: exit(0)); time.sleep(60)"
    with Processes(tmp_path) as processes:
        start(processes, "clean", code)
        processes.check()
    assert processes.problems == [] and processes.running == []


def test_an_early_end_names_the_process_its_exit_code_and_its_last_output(tmp_path):
    with Processes(tmp_path) as processes:
        process = start(processes, "short", "print('no such file'); exit(3)")
        with pytest.raises(
            ProcessFailure, match=r"(?s)short ended early with exit code 3.*no such"
        ):
            while True:
                processes.check()
        with pytest.raises(ProcessFailure, match="short ended early"):
            process.peak_memory_mb()
    assert processes.problems == ["short ended with exit code 3"]


def test_a_bad_end_and_a_signal_are_problems(tmp_path):
    with Processes(tmp_path) as processes:
        start(processes, "bad", "signal.signal(signal.SIGINT, lambda *_: exit(7)); time.sleep(60)")
        start(processes, "dead", "signal.signal(signal.SIGINT, signal.SIG_DFL); time.sleep(60)")
    assert processes.problems == ["dead ended with signal SIGINT", "bad ended with exit code 7"]


def test_a_process_that_does_not_end_is_killed_and_reported(tmp_path):
    process = Process(
        "deaf",
        [
            sys.executable,
            "-c",
            READY_THEN + "signal.signal(2, signal.SIG_IGN); print(2); time.sleep(60)",
        ],
        tmp_path,
    )
    while len(process.log.read_text().split()) < 2:
        time.sleep(0.01)
    assert process.stop(timeout_s=0.3) == "deaf was killed: it still ran 0.3 s after SIGINT"


def ignoring_interrupts():
    """Sets what a shell sets for a background job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)


def test_children_of_a_background_job_get_the_signals(tmp_path):
    """A shell starts a background job with SIGINT and SIGQUIT ignored."""
    parent = f"""
import sys
sys.path.insert(0, {str(REPOSITORY / "scripts")!r})
from processes import Process
code = "import signal; print(*map(signal.getsignal, (2, 3)), flush=True); signal.pause()"
child = Process("child", [sys.executable, "-c", code], {str(tmp_path)!r})
while not child.log.read_text():
    child.check()
print(child.log.read_text(), child.stop(timeout_s=60))
"""
    run = subprocess.run(
        [sys.executable, "-c", parent],
        preexec_fn=ignoring_interrupts,
        capture_output=True,
        text=True,
        timeout=120,
    )
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
    code = """x = bytearray(50_000_000)
while time.process_time() < 0.6: pass
time.sleep(60)"""
    process = Process("busy", [sys.executable, "-c", READY_THEN + code], tmp_path)
    deadline = time.monotonic() + 60
    while process.cpu_s() < 0.5 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert 0.5 <= process.cpu_s() < 5
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
