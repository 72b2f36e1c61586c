"""After a signal the node ends, even if the middleware hangs.

Fast DDS waits without an end for a file in shared memory that another process has begun and not finished.
Here such files have the names of the ports of the test's own domain.
"""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from fusion import start_fusion, streams, write_config
from middlewares import fast_dds_only
from private_domain import shared_memory_ports
from test_overload import stop_for

pytestmark = fast_dds_only
CONFIG = {"rate_hz": 100, "streams": streams(w={"type": "geometry_msgs/msg/WrenchStamped"})}
#: After a signal, the node gives the middleware this long [s].
PATIENCE = 4.0


@pytest.fixture
def unfinished(domain_id):
    """`unfinished()` leaves unfinished ports for the processes that join this domain from then on."""
    made = []
    ports = shared_memory_ports(domain_id)

    def leave():
        for port in ports:
            if not port.exists():
                port.touch()
                made.append(port)

    yield leave
    for port in made:
        port.unlink(missing_ok=True)


def await_handler(node, signum):
    """Waits until the process handles the signal."""
    while True:
        (caught,) = re.findall(r"SigCgt:\s*(\w+)", Path(f"/proc/{node.pid}/status").read_text())
        if int(caught, 16) >> (signum - 1) & 1:
            return
        assert node.running, node.output
        time.sleep(0.01)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_node_that_hangs_while_it_starts_ends(start, tmp_path, unfinished, signum):
    unfinished()
    config = write_config(tmp_path, CONFIG)
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={config}", expected_code=1)
    await_handler(node, signum)
    node.stop(signum)
    assert "shutting down; the node has not begun yet" in node.output
    assert "the middleware hangs, or a driver: the process ends without it" in node.output


def test_a_signal_that_comes_twice_at_once_counts_once(start, tmp_path):
    """A terminal and a supervisor may both send it."""
    config = write_config(tmp_path, CONFIG)
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={config}")
    node.wait_for("1 streams at 100 Hz")
    os.kill(node.pid, signal.SIGINT)
    time.sleep(0.01)
    node.stop(signal.SIGINT)
    assert "again" not in node.output


def test_a_second_signal_ends_it_at_once(start, tmp_path, unfinished):
    unfinished()
    config = write_config(tmp_path, CONFIG)
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={config}", expected_code=1)
    await_handler(node, signal.SIGINT)
    os.kill(node.pid, signal.SIGINT)
    node.wait_for("shutting down; the node has not begun yet")
    node.stop(signal.SIGTERM)
    assert "SIGTERM again" in node.output
    told = next(line for line in node.output.splitlines() if "shutting down" in line)
    last = node.output.splitlines()[-1]
    assert logged_at(last) - logged_at(told) < PATIENCE, "it waits no longer"


def logged_at(line):
    """The instant of a line of the log [s]."""
    return float(re.search(r"\[(\d+\.\d+)\]", line)[1])


def test_a_node_that_hangs_while_it_connects_again_ticks_on_and_ends(
    ros, start, tmp_path, unfinished
):
    recordings = tmp_path / "recordings"
    record = ["-p", f"record_to:={recordings}"]
    fusion = start_fusion(ros, start, tmp_path, dict(CONFIG), *record, sim_time=False)
    unfinished()
    stop_for(ros, fusion, 1.5)
    fusion.process.wait_for("through a new connection")
    ros.spin_for(2)
    tensors = len(fusion.ticks)
    fusion.until(lambda: len(fusion.ticks) > tensors + 100, "the ticks go on")
    assert fusion.value("w", "resubscribed") == 0, "the connection hangs"
    fusion.process.expected_code = 1
    fusion.process.stop()
    assert "the middleware hangs" in fusion.process.output
    assert len(list(recordings.rglob("metadata.yaml"))) == 1, "the recording is complete"
