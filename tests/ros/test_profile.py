"""The shared memory that the node gives itself, and its warnings about it."""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import profiles
import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from fusion import WRENCH, write_config
from middlewares import PROFILE, fast_dds_only
from robocache_ros.msg import FusedTensor

pytestmark = fast_dds_only

MIB = 1 << 20
SHARED_MEMORY = Path("/dev/shm")
#: An image of 24 MiB per tick.
IMAGE = {
    "type": "sensor_msgs/msg/Image",
    "topic": "image",
    "max_age_ms": 100,
    "image": {"resize": {"width": 2048, "height": 1024}},
    "dtype": "f32",
    "ring_rows": 2,
}
LARGE = {"rate_hz": 10, "streams": {"image": IMAGE, "wrench": WRENCH}}
SMALL = {"rate_hz": 10, "streams": {"wrench": WRENCH}}
#: No profile is set: the node chooses. The other variables of the tests stay.
UNSET = {"FASTRTPS_DEFAULT_PROFILES_FILE": "", "FASTDDS_DEFAULT_PROFILES_FILE": ""}


def segment_of(pid):
    """The largest segment that Fast DDS has made in the process [bytes], or 0."""
    files = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # the process has closed it
            files.append(os.readlink(fd))
    marked = [re.fullmatch(r"(/dev/shm/fast(?!.*_port).*)_el", name) for name in files]
    return max((os.stat(match[1]).st_size for match in marked if match), default=0)


def started(start, *arguments, **environment):
    """A node that has started; it makes its tensors on the CPU."""
    given = [word for pair in arguments for word in ("-p", pair)]
    node = start("fusion_node", "--ros-args", "-p", "backend:=cpu", *given, env=environment)
    node.wait_for("on the cpu backend")
    return node


def settled(ros, node):
    """Waits until the node has written all lines of its start: its first report comes after them."""
    reports = []
    ros.node.create_subscription(DiagnosticArray, "/diagnostics", reports.append, 10)
    ros.spin_until(lambda: reports, "a report of the node", detail=lambda: node.output)
    return node.output


def test_the_segment_holds_two_tensors_and_no_file_is_left(ros, start, tmp_path):
    node = started(start, f"config_file:={write_config(tmp_path, LARGE)}", **UNSET)
    assert "shared-memory segment" not in settled(ros, node)
    assert 2 * 24 * MIB < segment_of(node.pid) < 60 * MIB
    left = [name for name in os.listdir(SHARED_MEMORY) if f"_profile_{node.pid}_" in name]
    assert left == []


@pytest.mark.slow("floods")
def test_every_large_tensor_arrives_best_effort(ros, start, tmp_path):
    ticks = []
    ros.node.create_subscription(FusedTensor, "fused_tensor", lambda m: ticks.append(m.tick), 10)
    node = started(start, f"config_file:={write_config(tmp_path, LARGE)}", **UNSET)
    ros.spin_until(lambda: len(ticks) >= 5, "large tensors", detail=lambda: node.output)


def test_the_size_counts_when_the_file_comes_from_a_parameter_file(ros, start, tmp_path):
    """Launch gives parameters in such a file. The node has another name and a namespace in it."""
    config = str(write_config(tmp_path, LARGE))
    file = tmp_path / "parameters.yaml"
    nodes = {"/left/fusion": {"ros__parameters": {"config_file": config, "backend": "cpu"}}}
    file.write_text(yaml.safe_dump(nodes))
    remaps = ["-r", "__ns:=/left", "-r", "__node:=fusion"]
    node = start("fusion_node", "--ros-args", *remaps, "--params-file", file, env=UNSET)
    node.wait_for("on the cpu backend")
    assert segment_of(node.pid) > 2 * 24 * MIB


def test_a_small_tensor_takes_no_more_than_before(start, tmp_path):
    node = started(start, f"config_file:={write_config(tmp_path, SMALL)}", **UNSET)
    assert 16 * MIB <= segment_of(node.pid) < 18 * MIB


def test_our_installed_profile_is_no_choice_so_the_node_sizes_its_own(start, install, tmp_path):
    ours = install / "share" / "robocache_ros" / "config" / "fastdds.xml"
    environment = UNSET | {PROFILE: str(ours)}
    node = started(start, f"config_file:={write_config(tmp_path, SMALL)}", **environment)
    assert segment_of(node.pid) < 18 * MIB


def test_a_profile_of_the_users_own_that_is_too_small_is_named(ros, start, tmp_path):
    own = tmp_path / "own.xml"
    own.write_text(profiles.text(4 * MIB))
    environment = UNSET | {PROFILE: str(own)}
    node = started(start, f"config_file:={write_config(tmp_path, LARGE)}", **environment)
    output = settled(ros, node)
    assert 4 * MIB <= segment_of(node.pid) < 5 * MIB, "the user's choice stays"
    (line,) = [line for line in output.splitlines() if "shared-memory segment" in line]
    assert "WARN" in line and "the tensor message: 251" in line
    assert f"unset {PROFILE}" in line


def test_a_profile_of_the_users_own_that_is_large_enough_causes_no_warning(ros, start, tmp_path):
    own = tmp_path / "own.xml"
    own.write_text(profiles.text(64 * MIB))
    environment = UNSET | {PROFILE: str(own)}
    node = started(start, f"config_file:={write_config(tmp_path, LARGE)}", **environment)
    assert "shared-memory segment" not in settled(ros, node)


def may_mount():
    """Whether this user may give a process shared memory of its own."""
    trial = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/shm"]
    try:
        return subprocess.run(trial, capture_output=True).returncode == 0
    except OSError:
        return False


def test_too_little_shared_memory_is_said_and_what_there_is_is_used(ros, start, install, tmp_path):
    if not may_mount():
        pytest.skip("this user may not mount a small /dev/shm")
    program = install / "lib" / "robocache_ros" / "fusion_node"
    small = f"mount -t tmpfs -o size=32m none {SHARED_MEMORY} && exec {program} --ros-args"
    config = write_config(tmp_path, LARGE)
    arguments = f"-p backend:=cpu -p config_file:={config}"
    node = start("/usr/bin/unshare", "-m", "sh", "-c", f"{small} {arguments}", env=UNSET)
    output = node.wait_for("shared-memory segment")
    (line,) = [line for line in output.splitlines() if "shared-memory segment" in line]
    found = int(re.search(r"found (\d+) bytes", line)[1])
    assert 24 * MIB < found < 32 * MIB, "what is free is used"
    assert "make /dev/shm larger" in line and "--shm-size" in line


def test_the_robot_sizes_its_segment_by_its_images(start):
    robot = start(
        "sensor_sim",
        "--image-width",
        "2048",
        "--image-height",
        "2048",
        env=UNSET,
    )
    robot.wait_for("sensor_sim: seed")
    assert 2 * (2 * 12 * MIB) < segment_of(robot.pid) < 72 * MIB
    assert robot.stop() == 0
    assert "shared-memory segment" not in robot.output
