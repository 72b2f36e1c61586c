"""The node as a ROS node: names, parameters, errors, its end."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import middlewares
import pytest
import yaml
from conftest import REPOSITORY
from fusion import RELIABLE, WRENCH, publish_now, subscribe_tensors, write_config
from geometry_msgs.msg import WrenchStamped
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def config_file(tmp_path):
    return write_config(tmp_path, {"rate_hz": 50, "streams": {"wrench": WRENCH}})


def await_valid_tensor(ros, node, publisher, tensors):
    """Publishes wrenches until a tensor has a valid one."""

    def seen():
        publish_now(ros, publisher)
        ros.spin_for(0.02)
        return any(t.segments[0].valid == [True] for t in tensors)

    ros.spin_until(seen, "a valid tensor", detail=lambda: node.output)


# ---- names --------------------------------------------------------------------------------------


def test_relative_topics_follow_the_namespace(ros, start, config_file):
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={config_file}", "-r", "__ns:=/l")
    tensors = subscribe_tensors(ros, "/l/fused_tensor")
    publisher = ros.node.create_publisher(WrenchStamped, "/l/wrench", RELIABLE)
    await_valid_tensor(ros, node, publisher, tensors)
    names = ros.node.get_node_names_and_namespaces
    ros.spin_until(lambda: ("fusion_node", "/l") in names(), "its name", detail=names)
    assert ros.node.count_publishers("/fused_tensor") == 0


def test_topics_and_the_node_can_be_remapped(ros, start, config_file):
    arguments = ["-r", "wrench:=/arm/ft", "-r", "fused_tensor:=policy/input", "-r", "__node:=cell"]
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={config_file}", *arguments)
    tensors = subscribe_tensors(ros, "/policy/input")
    publisher = ros.node.create_publisher(WrenchStamped, "/arm/ft", RELIABLE)
    await_valid_tensor(ros, node, publisher, tensors)
    names = ros.node.get_node_names
    ros.spin_until(lambda: "cell" in names(), "its name", detail=names)
    assert ros.node.count_subscribers("/wrench") == 0


@pytest.mark.parametrize("name", ["/**", "fusion_node", "/cell_1/fusion_node"])
def test_a_parameter_file_serves(ros, start, tmp_path, config_file, name):
    parameters = {"config_file": str(config_file), "rate_hz": 20.0, "diagnostics_period_s": 0.2}
    file = tmp_path / "parameters.yaml"
    file.write_text(yaml.safe_dump({name: {"ros__parameters": parameters}}))
    namespace = ["-r", "__ns:=/cell_1"] if name.startswith("/cell") else []
    node = start("fusion_node", "--ros-args", "--params-file", file, *namespace)
    node.wait_for("1 streams at 20 Hz on the ")
    tensors = subscribe_tensors(ros, "/cell_1/fused_tensor" if namespace else "/fused_tensor")
    ros.spin_until(lambda: len(tensors) > 2, "tensors", detail=lambda: node.output)
    for tensor in tensors:
        stamp = tensor.header.stamp
        assert stamp.sec * 10**9 + stamp.nanosec == tensor.tick * 50_000_000


def test_a_parameter_file_may_hold_what_other_nodes_need(ros, start, tmp_path, config_file):
    parameters = {"config_file": str(config_file), "robot_description": "<robot/>", "gain": 0.5}
    file = tmp_path / "parameters.yaml"
    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": parameters}}))
    node = start("fusion_node", "--ros-args", "--params-file", file)
    words = "not parameters of this node, ignored: gain, robot_description"
    node.wait_for(words)
    node.wait_for("1 streams at 50 Hz")
    assert node.output.count(words) == 1


def test_the_rate_can_be_given_as_an_integer(start, config_file):
    given = ["-p", f"config_file:={config_file}", "-p", "rate_hz:=200"]
    start("fusion_node", "--ros-args", *given).wait_for("1 streams at 200 Hz")


# ---- errors at the start ------------------------------------------------------------------------

ERRORS = {
    "no configuration": ([], "parameter config_file: expected the path of a configuration"),
    "a file that is not there": (["config_file:=/no/such.yaml"], "/no/such.yaml"),
    "a parameter without its unit": (
        ["config_file:=CONFIG", "rate:=50"],
        "parameter rate: no such name, did you mean rate_hz?",
    ),
    "a mistyped parameter": (
        ["config_file:=CONFIG", "use_simtime:=true"],
        "parameter use_simtime: no such name, did you mean use_sim_time?",
    ),
    "too low a rate for the rings": (["config_file:=RING", "rate_hz:=0.2"], "ring_rows"),
    "a wrong type": (
        ["config_file:=CONFIG", "rate_hz:=fast"],
        "parameter rate_hz: expected a double, found a string",
    ),
    "a number for a path": (["config_file:=7"], "config_file: expected a string, found an integer"),
    "a rate out of range": (
        ["config_file:=CONFIG", "rate_hz:=-1.0"],
        "parameter rate_hz: expected a rate in Hz from 0.1 to 2000, or 0, found -1",
    ),
    "text for a boolean": (
        ["config_file:=CONFIG", "use_sim_time:=maybe"],
        "parameter use_sim_time: expected a boolean, found a string",
    ),
    "another backend": (
        ["config_file:=CONFIG", "backend:=gpu"],
        "parameter backend: expected auto, cpu or cuda, found 'gpu'",
    ),
    "a bad configuration": (["config_file:=BAD"], "streams.wrench.max_age"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_unusable_start_ends_with_an_error_that_says_why(start, tmp_path, config_file, case):
    parameters, expected = ERRORS[case]
    bad = tmp_path / "bad.yaml"
    stream = {k: v for k, v in WRENCH.items() if k != "max_age_ms"} | {"max_age": 50}
    bad.write_text(yaml.safe_dump({"rate_hz": 50, "streams": {"wrench": stream}}))
    ring = tmp_path / "ring.yaml"
    stream = {**WRENCH, "expected_rate_hz": 500, "ring_rows": 64}
    ring.write_text(yaml.safe_dump({"rate_hz": 50, "streams": {"wrench": stream}}))
    for name, file in {"CONFIG": config_file, "BAD": bad, "RING": ring}.items():
        parameters = [p.replace(name, str(file)) for p in parameters]
    given = [word for parameter in parameters for word in ("-p", parameter)]
    node = start("fusion_node", "--ros-args", *given, expected_code=1)
    assert node.wait() == 1
    node.stop()
    assert node.output.count(expected) == 1 and "panicked" not in node.output


#: The possible reasons why device 99 cannot be used.
NO_DEVICE = [
    "no NVIDIA driver on this machine (libcuda.so.1)",
    "the driver is too old: expected one for CUDA",
    "no GPU on this machine",
    "device: expected 0 to",
]


@pytest.fixture(scope="module")
def cuda_reasons():
    """The messages that the node may give for device 99, with the features of `make build`."""
    script = REPOSITORY / "scripts" / "cuda.sh"
    features = subprocess.run(["bash", script, "features"], capture_output=True, text=True)
    assert features.returncode == 0, features.stderr
    return NO_DEVICE if features.stdout.strip() else ["built without the feature `cuda`"]


def test_cuda_on_a_machine_without_ends_the_node_and_says_what_is_missing(
    start, config_file, cuda_reasons
):
    given = ["-p", f"config_file:={config_file}", "-p", "backend:=cuda", "-p", "device:=99"]
    node = start("fusion_node", "--ros-args", *given, expected_code=1)
    assert node.wait() == 1
    node.stop()
    assert "backend cuda: " in node.output and "panicked" not in node.output
    assert any(reason in node.output for reason in cuda_reasons), node.output


def test_auto_on_a_machine_without_cuda_computes_on_the_cpu_and_says_why(
    ros, start, config_file, cuda_reasons
):
    tensors = subscribe_tensors(ros, "fused_tensor")
    publisher = ros.node.create_publisher(WrenchStamped, "wrench", RELIABLE)
    given = ["-p", f"config_file:={config_file}", "-p", "backend:=auto", "-p", "device:=99"]
    node = start("fusion_node", "--ros-args", *given)
    await_valid_tensor(ros, node, publisher, tensors)
    (line,) = [line for line in node.output.splitlines() if "computing on the CPU" in line]
    assert any(reason in line for reason in cuda_reasons), line


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--config", "x.yaml"], "expected --ros-args, --help or --version, found '--config'"),
        (["--ros-args", "-p", "nonsense"], "nonsense"),
    ],
)
def test_a_wrong_command_line_is_refused(start, arguments, expected):
    node = start("fusion_node", *arguments, expected_code=None)
    assert node.wait() in (1, 2)
    assert expected in node.output and "panicked" not in node.output


# ---- parameters at run time ---------------------------------------------------------------------


def test_parameters_can_be_listed_and_read_and_say_why_they_are_fixed(ros, start, config_file):
    given = ["-p", f"config_file:={config_file}", "-p", "rate_hz:=25.0"]
    node = start("fusion_node", "--ros-args", *given)
    client = AsyncParameterClient(ros.node, "fusion_node")
    ros.spin_until(client.services_are_ready, "the services", detail=lambda: node.output)
    # The middleware drops an answer if it does not find its client in time, so the first request is repeated.
    ros.spin_until(
        lambda: ros.spin_for(1.0, until=client.list_parameters().done), "the node finds its client"
    )

    def ask(future):
        ros.spin_until(future.done, "an answer", detail=lambda: node.output)
        return future.result()

    names = ask(client.list_parameters()).result.names
    assert sorted(names) == [
        "backend",
        "command_cpus",
        "command_priority",
        "commands",
        "config_file",
        "contract",
        "device",
        "diagnostics_period_s",
        "digest",
        "encode_cpus",
        "encode_threads",
        "episodes_to",
        "intake_cpus",
        "intake_priority",
        "lock_memory",
        "managed",
        "output_type",
        "publish_cpus",
        "rate_hz",
        "realtime_priority",
        "record_compression",
        "record_max_age_s",
        "record_max_gb",
        "record_streams",
        "record_to",
        "record_when",
        "shared_output",
        "tick_cpus",
        "use_sim_time",
        "visualize_hz",
    ]
    values = ask(
        client.get_parameters(["rate_hz", "config_file", "use_sim_time", "no_such"])
    ).values
    rate, file, sim, unknown = values
    assert (rate.double_value, file.string_value) == (25.0, str(config_file))
    assert (sim.type, sim.bool_value, unknown.type) == (1, False, 0)
    kinds = ask(client.get_parameter_types(["device", "rate_hz"])).types
    assert list(kinds) == [Parameter.Type.INTEGER.value, Parameter.Type.DOUBLE.value]
    (described,) = ask(client.describe_parameters(["rate_hz"])).descriptors
    assert described.read_only and "[Hz]" in described.description
    wanted = [Parameter("rate_hz", value=10.0), Parameter("no_such", value=1)]
    fixed, unknown = ask(client.set_parameters(wanted)).results
    assert not fixed.successful and "read-only: set it at start" in fixed.reason
    assert not unknown.successful and "not a parameter of this node" in unknown.reason
    atomic = ask(client.set_parameters_atomically(wanted)).result
    assert not atomic.successful and atomic.reason
    assert ask(client.get_parameters(["rate_hz"])).values[0].double_value == 25.0


# ---- the end ------------------------------------------------------------------------------------


#: Ports that Fast DDS shares among all domains: another process may soon use a free number.
ANYONES = re.compile(r".*_port7[0-3]\d\d(_|$)")


def shared_memory_of(pid):
    """Names in /dev/shm that a process has mapped or open, and that belong to its domain."""
    links = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()]
    maps = Path(f"/proc/{pid}/maps").read_text().split()
    used = {Path(name).name for name in [*links, *maps] if name.startswith(f"{SHARED_MEMORY}/")}
    return {n for n in used if (SHARED_MEMORY / n).exists() and not ANYONES.match(n)}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_node_and_leaves_nothing_behind(ros, start, config_file, signum):
    before = set(os.listdir(SHARED_MEMORY))
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={config_file}")
    tensors = subscribe_tensors(ros, "/fused_tensor")
    publisher = ros.node.create_publisher(WrenchStamped, "/wrench", RELIABLE)
    await_valid_tensor(ros, node, publisher, tensors)
    own = {name for name in shared_memory_of(node.pid) if name not in before}
    if middlewares.IN_USE == "fastrtps":
        seen = any(name.startswith(("fastrtps_", "fastdds_")) for name in own)
        assert seen, "the test sees the node's segment"
    # The exit code says that nothing hung: otherwise the node would end with 1.
    assert node.stop(signum) == 0
    assert f"{signum.name}: shutting down" in node.output
    # Its segments that this process has open go when this process has noticed the end.
    ros.spin_until(
        lambda: not own & set(os.listdir(SHARED_MEMORY)),
        "the end of its shared memory",
        detail=lambda: own & set(os.listdir(SHARED_MEMORY)),
    )


def test_sigint_ends_the_node_even_if_it_was_ignored_at_its_start(start, install, config_file):
    """A script's background job starts with SIGINT ignored."""
    program = install / "lib" / "robocache_ros" / "fusion_node"
    ignoring = f"trap '' INT; exec {program} --ros-args -p config_file:={config_file}"
    node = start("/bin/sh", "-c", ignoring)
    node.wait_for("backend")
    assert node.stop(signal.SIGINT) == 0
    assert "SIGINT: shutting down" in node.output


def test_a_signal_during_the_start_ends_the_node_too(start, config_file):
    for delay in (0.0, 0.03, 0.1):
        given = ["-p", f"config_file:={config_file}"]
        node = start("fusion_node", "--ros-args", *given, expected_code=None)
        time.sleep(delay)  # at any point of the start, whichever it is
        code = node.stop(signal.SIGTERM)
        # Before the handlers are installed, the signal itself ends the process.
        assert code in (0, -signal.SIGTERM), node.output
        assert "panicked" not in node.output


def test_a_shipped_configuration_runs_as_it_is(ros, start, install):
    shipped = install / "share" / "robocache_ros" / "config" / "robocache.yaml"
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={shipped}")
    tensors = subscribe_tensors(ros, "/fused_tensor")
    ros.spin_until(lambda: len(tensors) > 5, "tensors", detail=lambda: node.output)
    written = yaml.safe_load((REPOSITORY / "config" / "robocache.yaml").read_text())
    assert [s.name for s in tensors[0].segments] == list(written["streams"])
    assert all(not any(s.valid) for s in tensors[0].segments)
