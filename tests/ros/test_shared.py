"""Tensors in shared memory (`shared_output`), read by policies without any ROS.

A policy is a process of its own, whose environment has NumPy and the robocache package and nothing of ROS. What it reads is
compared with what rclpy gets on the plain topic.
"""

import importlib.util
import itertools
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import REPOSITORY
from fusion import MS, PATIENCE, RELIABLE, T0, WRENCH, segments, start_fusion, wrench, write_config
from robocache_ros.msg import FusedTensor

POLICY = REPOSITORY / "tests" / "ros" / "policy_process.py"
#: How often a process is killed or suspended. Fewer by hand: ROBOCACHE_ROUNDS=3.
ROUNDS = int(os.environ.get("ROBOCACHE_ROUNDS", "30"))
CONFIG = {"streams": {"wrench": {**WRENCH, "strategy": "hold"}}}
_numbers = itertools.count()


@pytest.fixture
def service():
    """A name that no other test has: shared memory is the whole machine's."""
    return f"robocache_test/{os.getpid()}/{next(_numbers)}"


@pytest.fixture
def without_ros(install, tmp_path):
    """An environment whose Python finds NumPy, xxhash and robocache, and nothing of ROS."""
    packages = tmp_path / "without_ros"
    packages.mkdir()
    for name in ("numpy", "xxhash"):
        package = Path(importlib.util.find_spec(name).origin).parent
        (packages / name).symlink_to(package)
        libraries = package.parent / f"{name}.libs"
        if libraries.exists():
            (packages / libraries.name).symlink_to(libraries)
    (robocache,) = install.glob("lib/python3*/site-packages/robocache")
    (packages / "robocache").symlink_to(robocache)
    kept = ("HOME", "LANG", "PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "PYTHONPATH": str(packages)
    }


class Policy:
    """A policy process and what it has said."""

    def __init__(self, environment, service, *arguments):
        command = [sys._base_executable, str(POLICY), service, *arguments]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert json.loads(self._line())["ready"]

    def _line(self):
        line = self.process.stdout.readline()
        assert line, f"the policy has ended:\n{self.process.stderr.read()}"
        return line

    def next(self):
        """What it says of the next tensor."""
        return json.loads(self._line())

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def policy(without_ros):
    """`policy(service, *arguments)` starts a policy; all are ended."""
    started = []

    def start(service, *arguments):
        started.append(Policy(without_ros, service, *arguments))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def shared_node(ros, start, folder, service, config=CONFIG, **kwargs):
    given = ["-p", f"shared_output:={service}"]
    return start_fusion(ros, start, folder, {**config}, *given, **kwargs)


def files_of_the_engine():
    """The files of shared memory and the services, on this machine."""
    found = list(Path("/dev/shm").glob("iox2_*"))
    for folder in (Path("/tmp/iceoryx2/services"), Path("/tmp/iceoryx2/nodes")):
        found += folder.rglob("*") if folder.exists() else []
    return {str(path) for path in found}


def test_a_policy_reads_the_bits_of_the_plain_topic(ros, start, tmp_path, service, policy):
    # The policy comes first, and waits for the node.
    reader = policy(service)
    fusion = shared_node(ros, start, tmp_path, service).warm_up()
    latecomer = None
    for k in range(40):
        ns = T0 + k * 10 * MS
        if k % 3 == 0:
            fusion.send("wrench", wrench(ns, k, 2 * k, -k))
        plain = fusion.tick(ns)
        message = fusion.tensors[fusion.tick_of(ns)]
        for process in filter(None, (reader, latecomer)):
            said = process.next()
            while said["tick"] < message.tick:
                said = process.next()
            assert said["tick"] == message.tick
            assert said["digest"] == said["digest_of"] == message.digest
            expected = {
                name: [part.valid, part.array.ravel().tolist()] for name, part in plain.items()
            }
            assert said["segments"] == expected
        if k == 10:
            latecomer = policy(service)
            ros.spin_for(0.2)
    assert said["info"] == ["wrench"]
    fusion.until(lambda: fusion.value("tick", "shared_readers") == 2, "two readers are reported")
    assert fusion.value("tick", "publish_failed") == 0


@pytest.mark.alone
def test_at_1_khz_each_tensor_is_that_of_the_topic(ros, start, service, policy):
    silent = ("camera-front", "camera-wrist", "lidar", "imu")
    start("sensor_sim", *(word for name in silent for word in (f"--{name}-hz", "0")))
    config = REPOSITORY / "config" / "joints_1khz.yaml"
    given = ["-p", f"config_file:={config}", "-p", f"shared_output:={service}"]
    node = start("fusion_node", "--ros-args", *given)
    plain, said = {}, []
    ros.node.create_subscription(
        FusedTensor, "fused_tensor", lambda message: plain.update({message.tick: message}), RELIABLE
    )
    # The topic may be found seconds later than the shared memory.
    assert ros.spin_until(lambda: plain), node.output
    reader = policy(service, "--ticks", "1500")
    reading = threading.Thread(target=lambda: said.extend(reader.next() for _ in range(1500)))
    reading.start()
    assert ros.spin_until(lambda: len(said) == 1500), node.output
    reading.join()
    ros.spin_for(0.5)  # for the last messages of the topic
    assert all(tensor["digest"] == tensor["digest_of"] != 0 for tensor in said)
    common = [tensor for tensor in said if tensor["tick"] in plain]
    assert len(common) > 500, (len(common), len(plain))
    for tensor in common:
        message = plain[tensor["tick"]]
        assert tensor["digest"] == message.digest
        valid = {part.name: list(part.valid) for part in message.segments}
        assert {name: found for name, (found, _) in tensor["segments"].items()} == valid
    assert any(all(all(found) for found, _ in tensor["segments"].values()) for tensor in common)


@pytest.mark.alone
def test_a_policy_that_dies_or_stops_delays_nothing_and_leaves_nothing(
    ros, start, tmp_path, service, policy
):
    fusion = shared_node(ros, start, tmp_path, service, sim_time=False)
    other = policy(service)
    while not other.next()["info"]:
        pass
    fusion.until(lambda: fusion.value("tick", "shared_readers") == 1, "one reader")
    others = files_of_the_engine()
    for k in range(ROUNDS):
        victim = policy(service, "--hold", "3")
        for _ in range(10):
            assert victim.next()["held"]
        before = len(fusion.ticks)
        if k % 2:
            os.kill(victim.process.pid, signal.SIGSTOP)
            ros.spin_for(0.5)
            os.kill(victim.process.pid, signal.SIGCONT)
            assert victim.next()["held"]
        victim.kill()
        # The other policy and the plain topic go on.
        fusion.until(lambda: len(fusion.ticks) > before + 30, "the plain topic goes on", 3)
        newest = fusion.ticks[-1]
        deadline = time.monotonic() + 3
        while other.next()["tick"] < newest:
            assert time.monotonic() < deadline, "the other policy goes on"
    # The node removes what the victims have left.
    fusion.until(lambda: files_of_the_engine() <= others, "nothing of them is left", 10)
    assert fusion.value("tick", "share_failed") == 0
    assert fusion.value("tick", "publish_failed") == 0


@pytest.mark.alone
def test_a_node_that_dies_or_starts_again_with_another_layout_is_followed(
    ros, start, tmp_path, service, policy
):
    reader = policy(service)
    counts = []
    for k in range(ROUNDS):
        steps = 1 + k % 3
        spec = {**WRENCH, "strategy": "hold"}
        if steps > 1:
            spec["history"] = {"steps": steps, "step_ms": 10}
        folder = tmp_path / f"node-{k}"
        folder.mkdir()
        config = write_config(folder, {"rate_hz": 100, "streams": {"wrench": spec}})
        started = time.monotonic()
        given = ["-p", f"config_file:={config}", "-p", f"shared_output:={service}"]
        node = start("fusion_node", "--ros-args", *given, expected_code=None)
        while True:
            said = reader.next()
            assert said["digest"] == said["digest_of"]
            # What was read is all of the old layout, or all of the new one.
            valid, values = said["segments"]["wrench"]
            assert len(values) == 6 * len(valid)
            if len(valid) == steps:
                break
            assert time.monotonic() < started + PATIENCE
        if k % 2:
            os.kill(node.pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(node.pid, signal.SIGCONT)
            for _ in range(20):
                reader.next()
        os.kill(node.pid, signal.SIGKILL)
        node.wait()
        node.is_stopped = True
        counts.append(len(files_of_the_engine()))
    assert max(counts[1:], default=0) <= counts[0] + 1, counts


def test_a_forked_child_takes_nothing_from_its_parent(ros, start, tmp_path, service, without_ros):
    shared_node(ros, start, tmp_path, service, sim_time=False)
    code = (
        "import os, sys, time, robocache\nfrom robocache.shared import TensorReader\n"
        "reader = TensorReader(sys.argv[1])\ntensor = reader.wait(20)\n"
        "child = os.fork()\n"
        "if child == 0:\n    del tensor, reader\n    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "time.sleep(0.5)\n"  # some fifty ticks
        "assert robocache.digest_of(tensor) == tensor.digest\n"
        "assert reader.wait(5).tick > tensor.tick\n"
        "assert robocache.digest_of(tensor) == tensor.digest\n"
    )
    command = [sys._base_executable, "-c", code, service]
    tried = subprocess.run(
        command, env=without_ros, capture_output=True, text=True, timeout=60, check=False
    )
    assert tried.returncode == 0, tried.stderr


def test_a_second_node_of_the_name_is_refused(ros, start, tmp_path, service):
    shared_node(ros, start, tmp_path, service, sim_time=False)
    given = ["-p", f"config_file:={tmp_path / 'config.yaml'}", "-p", f"shared_output:={service}"]
    second = start("fusion_node", "--ros-args", *given, "-r", "__node:=second", expected_code=1)
    second.wait()
    assert "shared_output: another node publishes as" in second.output


def test_a_wrong_name_is_refused(start, tmp_path):
    config = write_config(tmp_path, {"rate_hz": 100, **CONFIG})
    given = ["-p", f"config_file:={config}", "-p", "shared_output:='two words'"]
    node = start("fusion_node", "--ros-args", *given, expected_code=1)
    node.wait()
    assert "shared_output: expected the name of a service" in node.output


def in_a_small_shared_memory(command):
    """The command with a /dev/shm of 8 MiB, or None where that cannot be made."""
    inside = 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$@"'
    wrapped = ["unshare", "--mount", "sh", "-c", inside, "sh"]
    tried = subprocess.run([*wrapped, "true"], capture_output=True, check=False)
    return [*wrapped, *command] if tried.returncode == 0 else None


def test_without_room_the_node_says_so_and_is_not_killed(install, start, tmp_path, service):
    node = install / "lib" / "robocache_ros" / "fusion_node"
    config = REPOSITORY / "config" / "robocache.yaml"
    given = ["-p", f"config_file:={config}", "-p", f"shared_output:={service}"]
    command = in_a_small_shared_memory([str(node), "--ros-args", *given])
    if command is None:
        pytest.skip("only root may mount another /dev/shm")
    unshare = shutil.which(command[0])
    process = start(unshare, *command[1:], expected_code=1)
    process.wait()
    assert "/dev/shm has room for" in process.output and "--shm-size" in process.output


def test_another_user_gets_an_error_and_no_tensor(ros, start, tmp_path, service, without_ros):
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    fusion = shared_node(ros, start, tmp_path, service, sim_time=False)
    fusion.until(lambda: fusion.ticks, "a tensor")
    # The modules are loaded before, because the other user cannot read them everywhere.
    code = (
        "import os, sys, robocache\nfrom robocache.shared import TensorReader\n"
        "os.setuid(int(sys.argv[2]))\n"
        "try:\n    reader = TensorReader(sys.argv[1])\n"
        "    sys.exit('nothing' if reader.wait(2) is None else 'read it')\n"
        "except RuntimeError as error:\n    sys.exit(f'refused: {error}')\n"
    )
    tried = subprocess.run(
        [sys._base_executable, "-c", code, service, str(pwd.getpwnam("nobody").pw_uid)],
        env=without_ros,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert tried.stderr.startswith("refused: ") and "as one user" in tried.stderr, tried.stderr
    before = len(fusion.ticks)
    fusion.until(lambda: len(fusion.ticks) > before + 20, "the node goes on")


def test_nobody_reads_and_ticks_cost_no_message(ros, start, tmp_path):
    config = write_config(tmp_path, {"rate_hz": 100, **CONFIG})
    given = ["-p", f"config_file:={config}", "-p", "diagnostics_period_s:=0.1"]
    start("fusion_node", "--ros-args", *given)
    from diagnostic_msgs.msg import DiagnosticArray

    seen = {}

    def on_diagnostics(message):
        for status in message.status:
            if status.name.endswith(": tick"):
                seen.update({pair.key: pair.value for pair in status.values}, words=status.message)

    ros.node.create_subscription(DiagnosticArray, "/diagnostics", on_diagnostics, 10)
    count = lambda key: int(seen.get(key, 0))  # noqa: E731
    assert ros.spin_until(lambda: count("unread") > 100), seen
    assert count("published") == 0 and "nobody takes the tensors" in seen["words"]
    tensors = []
    subscription = ros.node.create_subscription(FusedTensor, "fused_tensor", tensors.append, 10)
    assert ros.spin_until(lambda: len(tensors) > 20 and count("published") > 20), seen
    assert all(segments(tensor) and tensor.digest for tensor in tensors)
    ros.node.destroy_subscription(subscription)
    before = count("unread")
    assert ros.spin_until(lambda: count("unread") > before + 50), seen
