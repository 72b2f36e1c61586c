"""Verdicts of pytest runs: a pytest plugin, which tests/conftest.py loads.

- It gives each test a limit of three times the patience, unless the test has its own.
- A failure by `NotInTime`, by the time-out of a subprocess or by that limit gets evidence: what the machine did
  meanwhile, a backtrace of each process that the test started, and the list of /dev/shm.
- A test with the mark `slow(GROUP)` is about real time, or long. It runs with `--slow GROUP`, and only such tests then:
  scripts/slow.sh.
- With `--second-try`, a test whose only failures are of that kind, and for which the evidence blames the machine, runs
  three times more, alone. If it passes each time, it is flaky: `flaky.py` judges that. Nothing else is tried again.
"""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import flaky
import pytest
from evidence import Watch, Witness
from scene import backtraces, shared_memory
from waiting import PATIENCE, NotInTime

#: Limit of a test [s].
LIMIT = 3 * PATIENCE
#: Limit of a round alone [s]. The test in it has its own one. This is for what pytest does before and after it.
ROUND = 1800
#: The groups of the slow lane that have tests. Beside them, scripts/slow.sh has a soak.
SLOW = ["kills", "speeds", "floods", "browser", "images"]
REPOSITORY = Path(__file__).resolve().parent.parent
_WATCH = pytest.StashKey()
#: The program `pytest`. With `-m pytest`, the current folder would be on the path.
_PYTEST = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import pytest; sys.exit(pytest.console_main())"
)


def pytest_addoption(parser):
    parser.addoption(
        "--second-try",
        action="store_true",
        help="try a test again that was not in time if the machine is to blame: three times, alone",
    )
    parser.addoption("--slow", choices=SLOW, help="run the slow tests of this group, and no others")


def pytest_configure(config):
    config.addinivalue_line("markers", f"slow(group): a test of the slow lane: {', '.join(SLOW)}")
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    config.pluginmanager.register(Verdicts(config), "robocache_verdicts")


def slow_group(item):
    """The group of a slow test; None for all others."""
    marker = item.get_closest_marker("slow")
    if marker is None:
        return None
    (group,) = marker.args
    if group not in SLOW:
        raise pytest.UsageError(f"{item.nodeid}: slow: expected one of {SLOW}, found {group!r}")
    return group


def pytest_collection_modifyitems(config, items):
    wanted = config.option.slow
    others = [item for item in items if slow_group(item) != wanted]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if slow_group(item) == wanted]
    # A limit on the command line is for a slower machine.
    if config.pluginmanager.hasplugin("timeout") and config.option.timeout is None:
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LIMIT))


class Limit(pytest.fail.Exception):
    """A test is not done at its limit. No `except Exception` stops it."""

    def __init__(self, seconds, evidence):
        super().__init__(f"not in {seconds:g} s: the end of the test\n({evidence})")
        self.evidence, self.killed = evidence, backtraces()


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item, settings):
    """Raises `Limit` in place of pytest-timeout, while the processes of the test still run."""
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None

    def over(*_):
        raise Limit(settings.timeout, item.stash[_WATCH].evidence())

    def cancel():
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel
    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    marker = item.get_closest_marker("timeout")
    watch = Watch(marker.args[0] if marker and marker.args else LIMIT)
    watch.look(now=True)
    item.stash[_WATCH] = watch


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if not report.failed or call.excinfo is None:
        return
    error = call.excinfo.value
    if not _is_late(error) or any(not _is_late(cause) for cause in _contexts(error)):
        return
    if item.config.pluginmanager.hasplugin("timeout"):
        # The limit would end pytest itself now. It ends here for every failure anyway.
        item.config.hook.pytest_timeout_cancel_timer(item=item)
    if isinstance(error, subprocess.TimeoutExpired):
        evidence, killed = item.stash[_WATCH].evidence(error.timeout), []
        report.sections.append(("evidence", str(evidence)))
    else:
        evidence, killed = error.evidence, error.killed
    report.not_in_time = {"blames_machine": evidence.blames_machine, "evidence": str(evidence)}
    report.sections += [*(killed or backtraces()), shared_memory()]


def _is_late(error):
    """True for a wait or a limit that is over. Every other failure is wrong."""
    return isinstance(error, (NotInTime, Limit, subprocess.TimeoutExpired))


def _contexts(error):
    """The errors that were being handled when this one was raised. A wait in a clean-up may hide a wrong value."""
    while error := error.__context__:
        yield error


class Verdicts:
    """The controller's part: it has all reports, and ends the run."""

    def __init__(self, config):
        self._config = config
        self._witness = Witness()
        #: Reports of failures by the name of the test.
        self._failures = {}
        self._lines = []
        # Phases of a run may run at once. Each shares this lock while its tests run, and has it alone for second tries.
        folder = os.environ.get("ROBOCACHE_VERDICTS")
        self._phases = open(Path(folder, "phases"), "a") if folder else None  # noqa: SIM115 (until the end)
        if self._phases:
            fcntl.flock(self._phases, fcntl.LOCK_SH)

    def pytest_unconfigure(self):
        self._witness.end()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failures.setdefault(self._name(report), []).append(report)

    def _name(self, report):
        """The name of a test, by which pytest finds it. With `--dist=loadgroup`, xdist adds "@GROUP"."""
        name, at, group = report.nodeid.rpartition("@")
        has_group = at and getattr(self._config.option, "dist", "") == "loadgroup"
        return name if has_group and "]" not in group else report.nodeid

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_sessionfinish(self, session):
        yield
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        blamed = {
            name: reports
            for name, reports in self._failures.items()
            if all(getattr(report, "not_in_time", {}).get("blames_machine") for report in reports)
        }
        wrong = len(self._failures) - len(blamed)
        if not blamed:
            return
        if not self._config.option.second_try or wrong:
            self._lines += [
                f"the machine is to blame for {name}; not tried again" for name in blamed
            ]
            return
        if len(blamed) > flaky.ALLOWED:
            self._lines.append(
                f"{len(blamed)} tests were not in time: more than {flaky.ALLOWED}, so none is tried again"
            )
            return
        if self._phases:
            fcntl.flock(self._phases, fcntl.LOCK_EX)
        texts, passed = {}, True
        for name, reports in blamed.items():
            times, failure = self._again(name)
            if failure is None:
                tried = " ".join(f"{s:.1f} s" for s in times)
                first = reports[0].not_in_time["evidence"]
                texts[name] = f"{first}; alone {len(times)} of {flaky.ROUNDS} passed ({tried})"
            else:
                passed = False
                self._lines.append(f"{name} fails alone as well, round {len(times)}:\n{failure}")
        ok, lines = flaky.judge(texts)
        self._lines += lines
        if passed and ok:
            session.exitstatus = pytest.ExitCode.OK
        self._move(texts)

    def _again(self, name):
        """The times of the rounds of a test alone [s], and the output of the one that failed or None."""
        isolated = REPOSITORY / "scripts" / "isolated.sh"
        command = [isolated, sys.executable, "-c", _PYTEST, "-q", name]
        if self._config.option.slow:
            command += ["--slow", self._config.option.slow]
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        times = []
        for _ in range(flaky.ROUNDS):
            began = time.monotonic()
            with tempfile.TemporaryFile("w+") as output:
                options = {
                    "cwd": self._config.rootpath,
                    "env": env,
                    "stdout": output,
                    "stderr": subprocess.STDOUT,
                }
                try:
                    passed = subprocess.run(command, timeout=ROUND, **options).returncode == 0
                except subprocess.TimeoutExpired:
                    passed = False
                times.append(time.monotonic() - began)
                if not passed:
                    output.seek(0)
                    return times, output.read()
        return times, None

    def _move(self, names):
        """Counts the reports of these tests as flaky in the summary, with what they said the first time."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        for kind in ("failed", "error"):
            reports = terminal.stats.get(kind, [])
            terminal.stats[kind] = [of for of in reports if self._name(of) not in names]
            if not terminal.stats[kind]:
                terminal.stats.pop(kind, None)
        for name in names:
            terminal.stats.setdefault("flaky", []).append(self._failures[name][0])
            for report in self._failures[name]:
                self._lines.append(f"the first time, {report.when}:\n{report.longreprtext}")
                self._lines += [f"--- {title}\n{text}" for title, text in report.sections]

    def pytest_terminal_summary(self, terminalreporter):
        if self._lines:
            terminalreporter.section("verdicts")
            for line in self._lines:
                terminalreporter.write_line(line)
