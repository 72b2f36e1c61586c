"""The node beside the shared memory that killed processes left behind.

Fast DDS removes its files in /dev/shm when a process ends. A killed process leaves them. If it had finished them, the next
process takes over the ports among them. If it had only begun one, the next process that opens it waits without an end:
src/fastdds/slow_start.rs. Some ports belong to all domains of the machine.
"""

import os
import re
import signal
from pathlib import Path

import pytest
from fusion import MS, T0, start_fusion, streams, wrench, write_config
from middlewares import fast_dds_only

pytestmark = [
    fast_dds_only,
    pytest.mark.skipif(
        "ROBOCACHE_ISOLATED" not in os.environ,
        reason="needs a /dev/shm of its own: scripts/isolated.sh",
    ),
]
SHARED_MEMORY = Path("/dev/shm")
#: Ports from 7000 to here belong to all domains.
ALL_DOMAINS_TO = 7400
CONFIG = {"rate_hz": 100, "streams": streams(w={"type": "geometry_msgs/msg/WrenchStamped"})}


def files():
    """The files of Fast DDS, with those of its locks: names to sizes."""
    return {path.name: path.stat().st_size for path in SHARED_MEMORY.glob("*fast*")}


def ports():
    """The files of ports, without those of their locks: names to sizes."""
    found = {name: size for name, size in files().items() if name.startswith("fast")}
    return {name: size for name, size in found.items() if "_port" in name and name[-1].isdigit()}


def number_of(port):
    """The number of a port, from the name of its file."""
    return int(port.partition("_port")[2])


@pytest.fixture(autouse=True)
def clean():
    """Each test begins and ends without files. No other process is in these namespaces."""
    for name in files():
        (SHARED_MEMORY / name).unlink()
    yield
    for name in files():
        (SHARED_MEMORY / name).unlink()


def started(start, folder, **kwargs):
    """A node, or the beginning of one."""
    config = write_config(folder, CONFIG)
    return start("fusion_node", "--ros-args", "-p", f"config_file:={config}", **kwargs)


def test_the_next_node_ticks_beside_the_files_of_killed_processes(start, tmp_path, request):
    killed = [
        started(start, tmp_path, expected_code=-signal.SIGKILL),
        start("sensor_sim", expected_code=-signal.SIGKILL),
    ]
    killed[0].wait_for("ticks run at")
    killed[1].wait_for("sensor_sim: seed")
    for process in killed:
        process.stop(signal.SIGKILL)
    left = files()
    # Each has left a port of this domain, one of all domains, and segments of memory.
    numbers = sorted(map(number_of, ports()))
    assert len(numbers) == 4 and numbers[1] < ALL_DOMAINS_TO <= numbers[2], left
    assert len([name for name in left if re.fullmatch(r"fast\w+_[0-9a-f]{16}", name)]) >= 2, left
    # The next processes in this domain have the numbers of the killed ones, and so their ports.
    ros = request.getfixturevalue("ros")
    fusion = start_fusion(ros, start, tmp_path, dict(CONFIG)).warm_up()
    fusion.send("/w", wrench(T0, 1, 2, 3))
    got = fusion.tick(T0 + 10 * MS)["w"]
    assert (got.valid, got.array[0, :3].tolist()) == ([True], [1, 2, 3])
    assert fusion.process.stop() == 0


# Fast DDS makes an empty file, gives it its size, and then writes into it. The other two pairs hang as well.
@pytest.mark.parametrize(
    ("size", "whose"), [("empty", "all domains"), ("without content", "this domain")]
)
def test_an_unfinished_file_is_told_of_and_can_be_removed(start, tmp_path, request, size, whose):
    # Which ports a node makes, and how large they are.
    node = started(start, tmp_path)
    node.wait_for("ticks run at")
    of_node = ports()
    assert node.stop() == 0
    assert not ports()
    shared = {name for name in of_node if number_of(name) < ALL_DOMAINS_TO}
    (port,) = shared if whose == "all domains" else of_node.keys() - shared
    with (SHARED_MEMORY / port).open("wb") as file:
        file.truncate(0 if size == "empty" else of_node[port])

    node = started(start, tmp_path, expected_code=1, env={"ROBOCACHE_END_S": "1"})
    node.wait_for("the middleware has not begun for 10 s")
    assert "remove /dev/shm/*fastrtps_* (Fast DDS 3: /dev/shm/*fastdds_*)" in node.output
    node.stop()
    assert "the middleware hangs" in node.output
    # What it says helps.
    for pattern in ("*fastrtps_*", "*fastdds_*"):
        for path in SHARED_MEMORY.glob(pattern):
            path.unlink()
    ros = request.getfixturevalue("ros")
    start_fusion(ros, start, tmp_path, dict(CONFIG)).warm_up()
