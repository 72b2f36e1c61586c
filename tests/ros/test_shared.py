"""Tensors in shared memory (`shared_output`), read by policies without any ROS.

A policy is a process of its own, whose environment has NumPy and the robocache package and nothing of ROS. What it reads is
compared with what rclpy gets on the plain topic.
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import waiting
import yaml
from conftest import REPOSITORY
from fusion import MS, T0, WRENCH, segments, stamped, start_fusion, wrench, write_config
from robocache_ros.msg import FusedTensor
from sensor_msgs.msg import JointState
from waiting import Wait

#: How often a process is killed or suspended.
few_or_many = pytest.mark.parametrize(
    "rounds", [4, pytest.param(30, marks=pytest.mark.slow("kills"))]
)
CONFIG = {"streams": {"wrench": {**WRENCH, "strategy": "hold"}}}


def shared_node(ros, start, folder, service, config=CONFIG, **kwargs):
    given = ["-p", f"shared_output:={service}"]
    return start_fusion(ros, start, folder, {**config}, *given, **kwargs)


def files_of_the_engine():
    """The files of shared memory and the services, on this machine."""
    found = list(Path("/dev/shm").glob("iox2_*"))
    for folder in (Path("/tmp/iceoryx2/services"), Path("/tmp/iceoryx2/nodes")):
        # The node may remove a folder meanwhile, which `os.walk` passes over.
        found += [Path(at, name) for at, *several in os.walk(folder) for name in sum(several, [])]
    return {str(path) for path in found}


def test_a_policy_reads_the_bits_of_the_plain_topic(ros, start, tmp_path, service, policy):
    # The policy comes first, and waits for the node.
    reader = policy(service)
    fusion = shared_node(ros, start, tmp_path, service).warm_up()
    ticks = itertools.count()

    def tick_and_compare(*readers):
        k = next(ticks)
        ns = T0 + k * 10 * MS
        if k % 3 == 0:
            fusion.send("wrench", wrench(ns, k, 2 * k, -k))
        plain = fusion.tick(ns)
        message = fusion.tensors[fusion.tick_of(ns)]
        expected = {name: [part.valid, part.array.ravel().tolist()] for name, part in plain.items()}
        for process in readers:
            said = process.next()
            while said["tick"] < message.tick:
                said = process.next()
            assert said["tick"] == message.tick
            assert said["of"] == [message.run, message.epoch, message.run]
            assert said["digest"] == said["digest_of"] == message.digest
            assert said["segments"] == expected
        return said

    for _ in range(10):
        tick_and_compare(reader)
    latecomer = policy(service)
    while fusion.value("tick", "shared_readers") < 2:
        tick_and_compare(reader)
    for _ in range(20):
        said = tick_and_compare(reader, latecomer)
    while not said["info"]:
        said = tick_and_compare(reader, latecomer)
    assert said["info"] == ["wrench"]
    assert fusion.value("tick", "publish_failed") == 0


@pytest.mark.slow("speeds")
def test_each_of_many_tensors_at_1_khz_is_that_of_the_topic(ros, start, tmp_path, service, policy):
    """The clock is simulated, and steps when both have the tensor. So none is missed, however busy the machine is."""
    config = yaml.safe_load((REPOSITORY / "config" / "joints_1khz.yaml").read_text())
    for spec in config["streams"].values():
        spec["qos"] = {"reliability": "reliable", "depth": 1000}
    reader = policy(service)
    fusion = shared_node(ros, start, tmp_path, service, config, period_ms=1).warm_up()
    fusion.advance(T0)
    names = config["streams"]["joints"]["joints"]
    for ns in range(T0 - 300 * MS, T0 + 300 * MS, 2 * MS):
        joints = stamped(JointState, ns, name=names)
        joints.position = joints.velocity = [ns % 1e9] * len(names)
        fusion.send("/joint_states", joints)
        fusion.send("/wrench", wrench(ns, 1, 2, 3))
    fusion.settle()
    for k in range(1, 301):
        tick = fusion.tick_of(T0 + k * MS)

        def served(k=k, tick=tick):
            fusion.set_clock(T0 + k * MS)
            return ros.spin_for(1.0, until=lambda: tick in fusion.tensors)

        fusion.until(served, f"the tensor of tick {tick}")
        said, message = reader.next(), fusion.tensors[tick]
        while said["tick"] < tick:
            said = reader.next()
        assert said["tick"] == tick and said["missed"] == 0
        assert said["digest"] == said["digest_of"] == message.digest != 0
        valid = {part.name: list(part.valid) for part in message.segments}
        assert {name: found for name, (found, _) in said["segments"].items()} == valid
        assert all(map(all, valid.values()))


@few_or_many
def test_a_policy_that_dies_or_stops_delays_nothing_and_leaves_nothing(
    ros, start, tmp_path, service, policy, rounds
):
    fusion = shared_node(ros, start, tmp_path, service, sim_time=False)
    other = policy(service)
    while not other.next()["info"]:
        pass
    fusion.until(lambda: fusion.value("tick", "shared_readers") == 1, "one reader")
    others = files_of_the_engine()

    def both_go_on():
        """The plain topic and the other policy go on."""
        before = len(fusion.ticks)
        fusion.until(lambda: len(fusion.ticks) > before + 30, "the plain topic goes on")
        newest = fusion.ticks[-1]
        wait = Wait("the other policy goes on")
        while other.next()["tick"] < newest:
            wait.check()

    for k in range(rounds):
        victim = policy(service, "--hold", "3")
        for _ in range(10):
            assert victim.next()["held"]
        if k % 2:
            os.kill(victim.process.pid, signal.SIGSTOP)
            both_go_on()
            os.kill(victim.process.pid, signal.SIGCONT)
            assert victim.next()["held"]
        victim.kill()
        both_go_on()
    # The node removes what the victims have left.
    fusion.until(lambda: files_of_the_engine() <= others, "nothing of them is left")
    assert fusion.value("tick", "share_failed") == 0
    assert fusion.value("tick", "publish_failed") == 0


@few_or_many
def test_a_node_that_dies_or_starts_again_with_another_layout_is_followed(
    ros, start, tmp_path, service, policy, rounds
):
    reader = policy(service)
    most = None
    for k in range(rounds):
        steps = 1 + k % 3
        spec = {**WRENCH, "strategy": "hold"}
        if steps > 1:
            spec["history"] = {"steps": steps, "step_ms": 10}
        folder = tmp_path / f"node-{k}"
        folder.mkdir()
        config = write_config(folder, {"rate_hz": 100, "streams": {"wrench": spec}})
        given = ["-p", f"config_file:={config}", "-p", f"shared_output:={service}"]
        node = start("fusion_node", "--ros-args", *given, expected_code=None)
        wait = Wait("the policy follows", detail=lambda node=node: node.output)
        while True:
            said = reader.next()
            assert said["digest"] == said["digest_of"]
            # What was read is all of the old layout, or all of the new one.
            valid, values = said["segments"]["wrench"]
            assert len(values) == 6 * len(valid)
            if len(valid) == steps:
                break
            wait.check()
        if k % 2:
            os.kill(node.pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(node.pid, signal.SIGCONT)
            for _ in range(20):
                reader.next()
        os.kill(node.pid, signal.SIGKILL)
        node.wait()
        node.is_stopped = True
        if most is None:
            most = len(files_of_the_engine()) + 1
        waiting.until(
            lambda: len(files_of_the_engine()) <= most,
            f"at most {most} files of the engine",
            detail=lambda: "\n".join(sorted(files_of_the_engine())),
        )


def test_a_forked_child_takes_nothing_from_its_parent(ros, start, tmp_path, service, without_ros):
    shared_node(ros, start, tmp_path, service, sim_time=False)
    code = (
        "import os, sys, robocache\nfrom robocache.shared import TensorReader\n"
        "reader = TensorReader(sys.argv[1])\ntensor = reader.wait(90)\n"
        "child = os.fork()\n"
        "if child == 0:\n    del tensor, reader\n    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "while reader.wait(90).tick < tensor.tick + 50:\n    pass\n"
        "assert robocache.digest_of(tensor) == tensor.digest\n"
    )
    command = [sys._base_executable, "-c", code, service]
    tried = waiting.run(command, env=without_ros)
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
    nobody = str(pwd.getpwnam("nobody").pw_uid)
    command = [sys._base_executable, "-c", code, service, nobody]
    tried = waiting.run(command, env=without_ros)
    assert tried.stderr.startswith("refused: ") and "as one user" in tried.stderr, tried.stderr
    before = len(fusion.ticks)
    fusion.until(lambda: len(fusion.ticks) > before + 20, "the node goes on")


def test_a_reader_of_a_wrong_name_says_which_names_there_are(
    ros, start, tmp_path, service, without_ros
):
    fusion = shared_node(ros, start, tmp_path, service, sim_time=False)
    fusion.until(lambda: fusion.ticks, "a tensor")
    code = (
        "import sys, warnings\nfrom robocache.shared import TensorReader\n"
        "reader = TensorReader(sys.argv[1] + '/wrong')\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    assert reader.wait(timeout_s=1.5) is None and reader.wait(timeout_s=0.1) is None\n"
        "assert sys.argv[1] in reader.services, reader.services\n"
        "print(*[str(warning.message) for warning in said], sep='\\n')\n"
    )
    tried = waiting.run([sys._base_executable, "-c", code, service], env=without_ros)
    assert tried.returncode == 0, tried.stderr
    (line,) = tried.stdout.splitlines()
    assert f"no node shares tensors as '{service}/wrong'" in line and f"'{service}'" in line


def in_a_foreign_folder(command):
    """The command with a /tmp/iceoryx2 that every user may write, or None where that cannot be made."""
    inside = (
        'mkdir -p /tmp/iceoryx2 && mount -t tmpfs -o mode=0777 tmpfs /tmp/iceoryx2 && exec "$@"'
    )
    wrapped = ["unshare", "--mount", "sh", "-c", inside, "sh"]
    tried = subprocess.run([*wrapped, "true"], capture_output=True, check=False)
    return [*wrapped, *command] if tried.returncode == 0 else None


def test_a_node_refuses_a_folder_that_others_may_write(install, start, service):
    node = install / "lib" / "robocache_ros" / "fusion_node"
    config = REPOSITORY / "config" / "joints_1khz.yaml"
    given = ["-p", f"config_file:={config}", "-p", f"shared_output:={service}"]
    command = in_a_foreign_folder([str(node), "--ros-args", *given])
    if command is None:
        pytest.skip("only root may mount another /tmp/iceoryx2")
    process = start(shutil.which(command[0]), *command[1:], expected_code=1)
    process.wait()
    assert "others may write (mode 777)" in process.output, process.output


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
    # While ticks are missed, the words tell that.
    ros.spin_until(
        lambda: count("unread") > 100 and "nobody takes the tensors" in seen["words"],
        "unread tensors",
        detail=lambda: str(seen),
    )
    assert count("published") == 0
    tensors = []
    subscription = ros.node.create_subscription(FusedTensor, "fused_tensor", tensors.append, 10)
    ros.spin_until(
        lambda: len(tensors) > 20 and count("published") > 20, "tensors", detail=lambda: str(seen)
    )
    assert all(segments(tensor) and tensor.digest for tensor in tensors)
    ros.node.destroy_subscription(subscription)
    before = count("unread")
    ros.spin_until(lambda: count("unread") > before + 50, "unread tensors again")
