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
import waiting
from faults import lose_ports
from fusion import start_fusion, streams, write_config
from middlewares import fast_dds_only
from private_domain import shared_memory_ports

pytestmark = fast_dds_only
CONFIG = {"rate_hz": 100, "streams": streams(w={"type": "geometry_msgs/msg/WrenchStamped"})}
#: The same signal, this soon after it came, is no second request [s] (src/signals.rs).
REPEAT_S = 1.0


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

    def handles():
        assert node.running, node.output
        (caught,) = re.findall(r"SigCgt:\s*(\w+)", Path(f"/proc/{node.pid}/status").read_text())
        return int(caught, 16) >> (signum - 1) & 1

    waiting.until(handles, f"the node handles {signum.name}", detail=lambda: node.output)


def hanging(start, folder, end_s):
    """A node whose start hangs, and that gives the middleware this time at its end [s]."""
    config = write_config(folder, CONFIG)
    env = {"ROBOCACHE_END_S": str(end_s)}
    given = ["--ros-args", "-p", f"config_file:={config}"]
    node = start("fusion_node", *given, expected_code=1, env=env)
    for signum in (signal.SIGINT, signal.SIGTERM):
        await_handler(node, signum)
    return node


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_node_that_hangs_while_it_starts_ends(start, tmp_path, unfinished, signum):
    unfinished()
    node = hanging(start, tmp_path, end_s=1)
    node.stop(signum)
    assert "shutting down; the node has not begun yet" in node.output
    assert "the middleware hangs, or a driver: the process ends without it" in node.output


def test_a_signal_that_comes_twice_at_once_counts_once(start, tmp_path):
    """A terminal and a supervisor may both send it."""
    config = write_config(tmp_path, CONFIG)
    given = ["--ros-args", "-p", f"config_file:={config}"]
    node = start("fusion_node", *given, expected_code=None)
    node.wait_for("1 streams at 100 Hz")
    os.kill(node.pid, signal.SIGINT)
    time.sleep(0.01)  # otherwise the system may make one of two
    code = node.stop(signal.SIGINT)
    again = [line for line in node.output.splitlines() if "SIGINT again" in line]
    if again:
        # The machine paused between the two.
        (first,) = [line for line in node.output.splitlines() if "SIGINT: shutting down" in line]
        assert logged_at(again[0]) - logged_at(first) >= REPEAT_S, node.output
    else:
        assert code == 0, node.output


def logged_at(line):
    """The instant of a line of the log [s]."""
    return float(re.search(r"\[(\d+\.\d+)\]", line)[1])


def test_a_second_signal_ends_it_at_once(start, tmp_path, unfinished):
    unfinished()
    # Without the second signal, it would end long after the patience of this test.
    node = hanging(start, tmp_path, end_s=3600)
    os.kill(node.pid, signal.SIGINT)
    node.wait_for("shutting down; the node has not begun yet")
    node.stop(signal.SIGTERM)
    assert "SIGTERM again" in node.output


def test_a_node_that_hangs_while_it_connects_again_ticks_on_and_ends(
    ros, start, tmp_path, unfinished
):
    recordings = tmp_path / "recordings"
    record = ["-p", f"record_to:={recordings}"]
    # The recording has this time for its end, too.
    env = {"ROBOCACHE_END_S": "8"}
    config = dict(CONFIG)
    fusion = start_fusion(ros, start, tmp_path, config, *record, sim_time=False, env=env)
    unfinished()
    lose_ports(fusion.process.pid)
    fusion.process.wait_for("through a new connection")
    tensors = len(fusion.ticks)
    fusion.until(lambda: len(fusion.ticks) > tensors + 300, "the ticks go on")
    fusion.fence()
    assert fusion.value("w", "resubscribed") == 0, "the connection hangs"
    fusion.process.expected_code = 1
    fusion.process.stop()
    assert "the middleware hangs" in fusion.process.output
    assert len(list(recordings.rglob("metadata.yaml"))) == 1, "the recording is complete"
