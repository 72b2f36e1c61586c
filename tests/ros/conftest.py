"""Fixtures of the tests against real ROS processes.

Run them with ROS and the installed package in the environment: `make test`, or
`scripts/with_ros.sh pytest tests/ros`. ROBOCACHE_INSTALL names another install prefix.
"""

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

import private_domain  # noqa: E402 (the path comes first)
import processes  # noqa: E402

domain_id = private_domain.domain_id

#: Time-out for events that are immediate on an idle machine [s]. A wait ends as soon as its event comes.
PATIENCE = 60.0


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "alone: measures real time or loads both cores, so no other test runs beside it"
    )


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

    def wait_for(self, text, timeout=PATIENCE):
        """Waits until the output contains the text, and returns the output."""
        deadline = time.monotonic() + timeout
        while True:
            running, output = self.running, self.output  # in this order: the last output counts
            if text in output:
                return output
            assert running, f"{self.name} ended without '{text}':\n{output}"
            assert time.monotonic() < deadline, (
                f"{self.name}: no '{text}' in {timeout} s:\n{output}"
            )
            time.sleep(0.02)

    def wait(self, timeout=PATIENCE):
        """Waits for the end of a process that ends by itself, and returns its exit code."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self._kill()
            pytest.fail(f"{self.name} did not end within {timeout} s:\n{self.output}")

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

    def _kill(self):
        self._popen.kill()
        self._popen.wait()


@pytest.fixture
def start(install, tmp_path, domain_id):
    """`start(executable, *arguments, expected_code=0, env=None) -> Process`.

    The executable is a name in the package or a path. At the test's end SIGINT stops all
    processes that still run, the latest first. They must end with the expected code (None: any).
    """
    started = []

    def start_process(executable, *arguments, expected_code=0, env=None):
        path = executable
        if os.sep not in str(executable):
            path = install / "lib" / "robocache_ros" / executable
        assert os.access(path, os.X_OK), f"no executable {path}: run `make build`"
        log = tmp_path / f"{Path(path).name}-{len(started)}.log"
        started.append(Process([path, *arguments], log, expected_code, env))
        return started[-1]

    yield start_process

    failures = []
    for process in reversed(started):
        if not process.is_stopped:
            try:
                process.stop()
            except (AssertionError, pytest.fail.Exception) as failure:
                failures.append(str(failure))
    assert not failures, "\n".join(failures)


@pytest.fixture(scope="session")
def node_faults(tmp_path_factory):
    """`node_faults(take=file)`: an environment with this fault of node_faults.c while the file exists."""
    library = tmp_path_factory.mktemp("faults") / "node_faults.so"
    source = REPOSITORY / "tests" / "ros" / "node_faults.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

    def environment(**files):
        named = {f"ROBOCACHE_TEST_{fault.upper()}": str(file) for fault, file in files.items()}
        # Beside the middleware, if that is preloaded too.
        return {"LD_PRELOAD": f"{library} {os.environ.get('LD_PRELOAD', '')}", **named}

    return environment


class Ros:
    """A node of rclpy with an executor of its own."""

    def __init__(self, context):
        self.context = context
        self.node = rclpy.create_node("test_client", context=context)
        self.executor = SingleThreadedExecutor(context=context)
        self.executor.add_node(self.node)

    def spin_until(self, predicate, timeout=PATIENCE):
        """Handles messages until the predicate holds. False if it does not in time [s]."""
        deadline = time.monotonic() + timeout
        while not predicate():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.executor.spin_once(timeout_sec=min(left, 0.05))
        return True

    def spin_for(self, seconds):
        """Handles messages for the given time [s]."""
        self.spin_until(lambda: False, seconds)

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
