"""Runs processes, measures what they cost, and reads a node's diagnostics.

The demo, the benchmark and tests use it.
"""

import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import profiles

REPOSITORY = Path(__file__).resolve().parent.parent
#: Where Linux has shared memory.
SHARED_MEMORY = Path("/dev/shm")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
#: A process may take so long for its end after SIGINT [s], also on a busy machine.
END_S = 90.0


class ProcessFailure(Exception):
    """A process failed; the message says which one, and where its log is."""


def executable(name):
    """The path of an executable of robocache_ros: of the install that scripts/with_ros.sh chose, or of `make build`."""
    prefixes = [Path(os.environ.get("ROBOCACHE_INSTALL", REPOSITORY / "install")) / "robocache_ros"]
    prefixes += [Path(p) for p in os.environ.get("AMENT_PREFIX_PATH", "").split(":") if p]
    tried = [prefix / "lib" / "robocache_ros" / name for prefix in prefixes]
    for path in tried:
        if os.access(path, os.X_OK):
            return str(path)
    looked = "\n  ".join(map(str, tried))
    raise ProcessFailure(f"no executable {name} (`make build` makes it); looked for\n  {looked}")


def locked_shared_memory(pid):
    """The names of the shared memory that a process owns. Fast DDS locks a file beside each.

    It opens the files of other processes for a moment, but does not lock them.
    """
    names = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        # The process may close a file while this looks at it.
        with contextlib.suppress(OSError):
            found = re.search(r"/(fast\w+)_el", os.readlink(fd))
            if found and "lock:" in Path(f"/proc/{pid}/fdinfo/{fd.name}").read_text():
                names.add(found[1])
    return names


def thread_times(pid):
    """(process, threads): processor time so far [s] of a process, and (name, time) of each of its threads.

    A thread's key is its id and when it began, because Linux gives the id of one that has ended to another.
    """
    threads = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end while this looks at it.
        with contextlib.suppress(OSError):
            name, seconds, began = _times((task / "stat").read_text())
            threads[int(task.name), began] = name, seconds
    # After the threads, so that it has all that they have.
    return _times(Path(f"/proc/{pid}/stat").read_text())[1], threads


def thread_seconds(before, after):
    """Processor time between two readings of thread_times, by the name of the threads [s].

    What no thread of the second reading has spent is that of threads which have ended: ``ended``.
    """
    spent = {}
    for key, (name, seconds) in after[1].items():
        since = before[1].get(key, (name, 0.0))[1]
        spent[name] = spent.get(name, 0.0) + seconds - since
    spent["ended"] = max(0.0, after[0] - before[0] - sum(spent.values()))
    return spent


def _times(stat):
    """(name, processor time [s], when it began) from a file ``stat`` of /proc."""
    # proc(5): fields 14 and 15 are utime and stime, 22 is starttime. The name before them may contain anything.
    name, rest = stat.split("(", 1)[1].rsplit(") ", 1)
    fields = rest.split()
    return name, (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND, int(fields[19])


def private_environment(domain_id):
    """Sets this process's environment, so that DDS stays on this machine and in this domain.

    The caller must do this before the first rclpy call. It also holds for the child processes.
    """
    os.environ["ROS_DOMAIN_ID"] = str(domain_id)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ.update(dict.fromkeys(profiles.VARIABLES, str(profiles.path())))
    package = str(REPOSITORY / "python")
    paths = os.environ.get("PYTHONPATH", "").split(":")
    os.environ["PYTHONPATH"] = ":".join([package, *filter(None, paths)])


def popen(command, **options):
    """Starts a child that SIGINT and SIGQUIT reach. The options are those of subprocess.Popen.

    A shell starts a background job with both ignored, and all its descendants inherit that. A
    Python child would then ignore the SIGINT that ends it. All children of tests, demo and
    benchmark start here.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(command[0]))
    # `env` of the coreutils does it after the fork: Python code there could wait for a lock of another thread.
    return subprocess.Popen(["env", "--default-signal=INT,QUIT", *command], **options)


class Process:
    """One child with its output in a log file."""

    def __init__(self, name, command, log_dir):
        self.name = name
        self.log = Path(log_dir) / f"{name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "wb") as log:
            try:
                self._popen = popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a Ctrl-C at the terminal reaches only this process
                )
            except OSError as error:
                raise ProcessFailure(f"{name}: cannot start {command[0]}: {error}") from error
        self.pid = self._popen.pid

    def check(self):
        """Raises ProcessFailure if the process has ended."""
        code = self._popen.poll()
        if code is not None:
            raise ProcessFailure(f"{self.name} ended early with {describe(code)}\n{self.tail()}")

    def tail(self, lines=8):
        """The end of the log, for an error message."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"  the end of {self.log}:", *(f"    {line}" for line in text)])

    def interrupt(self):
        """Sends SIGINT if the process runs."""
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGINT)

    def stop(self, timeout_s=None):
        """Sends SIGINT, and after the timeout (END_S) SIGKILL. Returns the problem, or None for exit code 0 in time."""
        timeout_s = END_S if timeout_s is None else timeout_s
        self.interrupt()
        try:
            code = self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
            return f"{self.name} was killed: it still ran {timeout_s:g} s after SIGINT"
        return None if code == 0 else f"{self.name} ended with {describe(code)}"

    def cpu_s(self):
        """User and system time of all threads so far [s]; resolution 1/SC_CLK_TCK."""
        return _times(self._proc("stat"))[1]

    def peak_memory_mb(self):
        """The largest resident set so far [MB], shared memory included (VmHWM)."""
        for line in self._proc("status").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise ProcessFailure(f"{self.name} ended early\n{self.tail()}")

    def _proc(self, file):
        try:
            return Path(f"/proc/{self.pid}/{file}").read_text()
        except OSError:
            self.check()
            raise


def describe(code):
    """An exit status in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


class Processes:
    """Child processes. At the end of the `with` block all are stopped, the last started first."""

    def __init__(self, log_dir):
        self.log_dir = Path(log_dir)
        self.running = []
        self.problems = []

    def start(self, name, command):
        process = Process(name, [str(part) for part in command], self.log_dir)
        self.running.append(process)
        return process

    def check(self):
        for process in self.running:
            process.check()

    def let_end(self, process):
        """Sends SIGINT to a process that may end from now on. `end` waits for it."""
        self.running.remove(process)
        process.interrupt()

    def end(self, process):
        """Waits for the end of a process and adds its problem to `problems`."""
        problem = process.stop()
        if problem:
            self.problems.append(problem)

    def stop(self):
        """Stops all processes and adds their problems to `problems`."""
        while self.running:
            self.end(self.running.pop())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Diagnostics:
    """The newest values of a node's `<node>: tick` status and of its streams' statuses.

    Attributes:
        tick: values of the tick by key; empty before the first message.
        streams: stream name to values by key.
        arrivals: number of messages so far.
    """

    def __init__(self, node):
        from diagnostic_msgs.msg import DiagnosticArray

        self.tick = {}
        self.streams = {}
        self.arrivals = 0
        self._node = node
        self._subscription = node.create_subscription(
            DiagnosticArray, "/diagnostics", self._on_array, 10
        )

    def destroy(self):
        """Ends the subscription."""
        self._node.destroy_subscription(self._subscription)

    def _on_array(self, msg):
        for status in msg.status:
            subject = status.name.rpartition(": ")[2]
            values = {item.key: item.value for item in status.values}
            if subject == "tick":
                self.tick = values
            else:
                self.streams[subject] = values
        self.arrivals += 1


def number(values, key):
    """A value of a status as a number; None if it is missing or no number."""
    try:
        return float(values[key])
    except (KeyError, ValueError):
        return None


def drops_in_words(values):
    """The `dropped.<reason>` values as text, such as "3 late, 1 malformed"; empty if none."""
    reasons = {
        key.partition(".")[2]: number(values, key) for key in values if key.startswith("dropped.")
    }
    return ", ".join(f"{count:.0f} {reason}" for reason, count in reasons.items() if count)
