"""Fixtures of the tests against real ROS processes.

Run them with ROS and the installed package in the environment: `make test`, or
`scripts/with_ros.sh pytest tests/ros`. ROBOCACHE_INSTALL names another install prefix.
"""

import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor

REPOSITORY = Path(__file__).resolve().parents[2]
for folder in ("scripts", "tests"):
    sys.path.insert(0, str(REPOSITORY / folder))

import policies  # noqa: E402 (the path comes first)
import private_domain  # noqa: E402
import processes  # noqa: E402
import waiting  # noqa: E402
from waiting import PATIENCE, NotInTime, Wait  # noqa: E402

domain_id = private_domain.domain_id

if importlib.util.find_spec("robocache_ros") is None:
    _profile = os.environ.get("ROBOCACHE_PROFILE", "release")
    raise pytest.UsageError(f"there is no build: run `ROBOCACHE_PROFILE={_profile} make build`")

_numbers = itertools.count()
#: What a node allows itself at its end, in tests that are not about that [s]. A busy machine may need longer than 4 s.
END_S = 60


@pytest.fixture(scope="session")
def install():
    """The install prefix of robocache_ros, in any of colcon's layouts."""
    root = Path(os.environ.get("ROBOCACHE_INSTALL") or REPOSITORY / "install")
    for prefix in (root / "robocache_ros", root):
        if (prefix / "share" / "robocache_ros" / "package.xml").exists():
            return prefix
    pytest.fail(f"robocache_ros is not installed in {root}: run `make build`")


class Process:
    """A running executable with its output in a file."""

    def __init__(self, command, log, expected_code=0, env=None):
        self.name = Path(command[0]).name
        self.log = log
        self.expected_code = expected_code
        self.is_stopped = False
        with open(log, "wb") as file:
            self._popen = processes.popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # a Ctrl-C at the terminal reaches only pytest
            )
        self.pid = self._popen.pid

    @property
    def output(self):
        """Standard output and error so far, together."""
        return self.log.read_text(errors="replace")

    @property
    def running(self):
        """Whether it still runs."""
        return self._popen.poll() is None

    @property
    def connections(self):
        """Number of its connections to the middleware, for Fast DDS: each owns two segments of shared memory.

        The graph of a client does not tell: it may keep a node that has ended, if what that node said last comes late.
        """
        names = processes.locked_shared_memory(self.pid)
        return sum("_port" not in name for name in names) / 2

    def wait_for(self, text, timeout=PATIENCE):
        """Waits until the output contains the text, and returns the output."""

        def found():
            running, output = self.running, self.output  # in this order: the last output counts
            assert running or text in output, f"{self.name} ended without '{text}':\n{output}"
            return text in output and output

        return waiting.until(found, f"{self.name}: '{text}'", timeout, lambda: self.output)

    def wait(self, timeout=PATIENCE):
        """Waits for the end of a process that ends by itself, and returns its exit code."""
        return waiting.exit_code(self._popen, self.name, timeout, lambda: self.output)

    def stop(self, signum=signal.SIGINT, timeout=PATIENCE):
        """Ends it by the signal, or by force after the timeout. Checks the exit code."""
        if self.running:
            self._popen.send_signal(signum)
        code = self.wait(timeout)
        self.is_stopped = True
        assert self.expected_code is None or code == self.expected_code, (
            f"{self.name}: expected exit code {self.expected_code}, found {code}:\n{self.output}"
        )
        return code


@pytest.fixture
def start(install, tmp_path, domain_id):
    """`start(executable, *arguments, expected_code=0, env=None) -> Process`.

    The executable is a name in the package or a path. At the test's end SIGINT stops all
    processes that still run, the latest first. They must end with the expected code (None: any). A
    node may take END_S for its end, unless `env` has another ROBOCACHE_END_S.
    """
    started = []

    def start_process(executable, *arguments, expected_code=0, env=None):
        path = executable
        if os.sep not in str(executable):
            path = install / "lib" / "robocache_ros" / executable
        assert os.access(path, os.X_OK), f"no executable {path}: run `make build`"
        log = tmp_path / f"{Path(path).name}-{len(started)}.log"
        given = {"ROBOCACHE_END_S": str(END_S), **(env or {})}
        started.append(Process([path, *arguments], log, expected_code, given))
        return started[-1]

    yield start_process

    wrong, late = [], None
    for process in reversed(started):
        if not process.is_stopped:
            try:
                process.stop()
            except AssertionError as failure:
                wrong.append(str(failure))
            except NotInTime as failure:
                late = late or failure
    assert not wrong, "\n".join(wrong)
    if late:
        raise late


@pytest.fixture(scope="session")
def node_faults(tmp_path_factory):
    """`node_faults(take=file)`: an environment with this fault of node_faults.c while the file exists."""
    library = tmp_path_factory.mktemp("faults") / "node_faults.so"
    source = REPOSITORY / "tests" / "ros" / "node_faults.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

    def environment(**files):
        named = {f"ROBOCACHE_TEST_{fault.upper()}": str(file) for fault, file in files.items()}
        # Beside what is preloaded in the whole run of the tests.
        return {"LD_PRELOAD": f"{library} {os.environ.get('LD_PRELOAD', '')}", **named}

    return environment


class Ros:
    """A node of rclpy with an executor of its own."""

    def __init__(self, context):
        self.context = context
        self.node = rclpy.create_node("test_client", context=context)
        self.executor = SingleThreadedExecutor(context=context)
        self.executor.add_node(self.node)

    def spin_until(self, predicate, what, timeout=PATIENCE, detail=None):
        """Handles messages until the predicate holds. Raises `NotInTime` if `what` does not come."""
        wait = Wait(what, timeout, detail)
        while not predicate():
            wait.check()
            self.executor.spin_once(timeout_sec=min(wait.left, 0.05))

    def spin_for(self, seconds, until=None):
        """Handles messages for the given time [s], or until the predicate holds. Returns whether it holds."""
        end = time.monotonic() + seconds
        while not (until and until()):
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.executor.spin_once(timeout_sec=min(left, 0.05))
        return True

    def close(self):
        """Ends the node and the context. Otherwise their shared memory outlives the test."""
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)


@pytest.fixture
def ros(domain_id):
    """An rclpy node in the test's domain."""
    context = rclpy.Context()
    rclpy.init(context=context)
    client = Ros(context)
    yield client
    client.close()


@pytest.fixture
def service():
    """A name that no other test has: shared memory is the whole machine's."""
    return f"robocache_test/{os.getpid()}/{next(_numbers)}"


@pytest.fixture
def without_ros(install, tmp_path):
    """The environment of a policy without ROS."""
    return policies.environment(install, tmp_path)


@pytest.fixture
def policy(without_ros):
    """`policy(service, *arguments, program=...)` starts a policy without ROS; all are ended."""
    started = []

    def start(service, *arguments, program="policy_process.py"):
        started.append(policies.Policy(without_ros, program, service, *arguments))
        return started[-1]

    yield start
    for process in started:
        process.kill()
