"""Waits of the tests. There are two kinds of failure, and a wait raises the first:

- `NotInTime`: an event did not come while the test was patient. The machine may be to blame, so the error carries the
  evidence, and `verdicts.py` may try the test again.
- Every other error is *wrong*: a value, a count, an exit code, a panic. It is never tried again.

A wait ends with its event, so its patience costs time only if the event does not come. There is one patience for all
waits. A test that needs a shorter one is about that time, and says why.
"""

import contextlib
import os
import signal
import subprocess
import time

from evidence import Watch, descendants
from scene import backtraces

#: Patience of every wait [s].
PATIENCE = float(os.environ.get("ROBOCACHE_PATIENCE_S", "90"))
#: Time between two looks [s].
NAP = 0.02


class NotInTime(Exception):
    """An event did not come in time. `evidence` says what the machine did meanwhile.

    `killed` has the backtraces of the processes that the wait has killed.
    """

    killed = ()

    def __init__(self, message, evidence):
        super().__init__(f"{message}\n({evidence})")
        self.evidence = evidence

    def __reduce__(self):
        return (_again, (self.args[0], self.evidence))


def _again(text, evidence):
    error = NotInTime("", evidence)
    error.args = (text,)
    return error


class Wait:
    """One wait for an event. The caller looks for the event and calls `check` after each look in vain.

    `what` names the event. `detail` is a function: the text that it returns follows in the error.
    """

    def __init__(self, what, timeout=PATIENCE, detail=None):
        self.what, self.timeout, self.detail = what, timeout, detail
        self._watch = Watch(timeout)
        self._end = self._watch.began + timeout

    @property
    def left(self):
        """Time that is left [s]; not negative."""
        return max(0.0, self._end - time.monotonic())

    def check(self):
        """Raises `NotInTime` if the time is over."""
        self._watch.look()
        if time.monotonic() >= self._end:
            raise self.error()

    def error(self):
        """The error that says that the event did not come."""
        text = f"not in {self.timeout:g} s: {self.what}"
        if self.detail:
            text += f"\n{self.detail()}"
        return NotInTime(text, self._watch.evidence())


def until(predicate, what, timeout=PATIENCE, detail=None, nap=NAP):
    """Waits until the predicate holds, and returns what it returned. It is looked at every `nap` seconds."""
    wait = Wait(what, timeout, detail)
    while not (found := predicate()):
        wait.check()
        time.sleep(nap)
    return found


def _slices(attempt, wait, process):
    """Repeats an attempt that takes a time limit. If the wait is over, kills the process and all that it has started."""
    while True:
        try:
            return attempt(min(1.0, wait.left))
        except subprocess.TimeoutExpired as error:
            try:
                wait.check()
            except NotInTime as late:
                late.killed = backtraces(process.pid)
                _kill(process)
                said = [
                    part.decode(errors="replace") for part in (error.output, error.stderr) if part
                ]
                late.args = ("\n".join([*late.args, *said]),)
                raise late from None


def _kill(process):
    # Descendants would keep the pipes open.
    for each in descendants(process.pid)[1:]:
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGKILL)
    process.kill()
    process.wait()


def exit_code(process, what, timeout=PATIENCE, detail=None):
    """Waits for the end of a `subprocess.Popen`, and returns its exit code. Kills it if it does not end in time."""
    return _slices(process.wait, Wait(f"{what} ends", timeout, detail), process)


def communicate(process, what, timeout=PATIENCE):
    """Reads all output of a `subprocess.Popen` up to its end, and returns both streams as `Popen.communicate` does.

    Kills it if it does not end in time.
    """
    attempt = lambda limit: process.communicate(timeout=limit)  # noqa: E731
    return _slices(attempt, Wait(f"{what} ends", timeout), process)


def run(command, timeout=PATIENCE, check=False, **options):
    """`subprocess.run` with captured text, whose time-out is `NotInTime`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = command if isinstance(command, str) else [str(word) for word in command]
    with subprocess.Popen(words, **{**pipes, **options}) as process:
        try:
            said = communicate(
                process, words if isinstance(words, str) else " ".join(words)[:200], timeout
            )
        except BaseException:  # an interrupt, or the test's limit
            _kill(process)
            raise
    done = subprocess.CompletedProcess(words, process.returncode, *said)
    if check:
        done.check_returncode()
    return done
