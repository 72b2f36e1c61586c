"""Processors and priorities of the node's threads, as Linux tells them."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from fusion import WRENCH, subscribe_tensors, write_config

CAMERA = {
    "type": "sensor_msgs/msg/Image",
    "topic": "camera",
    "max_age_ms": 50,
    "image": {"resize": {"width": 8, "height": 8}},
}


@pytest.fixture
def config_file(tmp_path):
    streams = {"wrench": WRENCH, "camera": CAMERA}
    return write_config(tmp_path, {"rate_hz": 50, "streams": streams})


def threads(process, of):
    """Results of a function of a thread's number: one for each thread of the process, by the thread's name."""
    found = {}
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(OSError):  # it may end at any time
            found[(task / "comm").read_text().strip()] = of(int(task.name))
    return found


def test_each_thread_runs_on_its_processors_that_exist(ros, start, config_file):
    one, other = (sorted(os.sched_getaffinity(0)) * 2)[:2]
    given = {"tick": [one], "publish": [other], "intake": [one], "encode": [other, 1023]}
    words = [word for role, cpus in given.items() for word in ("-p", f"{role}_cpus:={cpus}")]
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={config_file}", *words)
    ones, others = dict.fromkeys(["tick", "spin", "spin large"], {one}), {"publish", "encode"}
    expected = {**ones, **dict.fromkeys(others, {other})}
    found = {}

    def are_there():
        found.update(threads(node, os.sched_getaffinity))
        return expected.items() <= found.items()

    ros.spin_until(are_there, f"{expected}", detail=lambda: f"{found}\n{node.output}")
    output = node.wait_for("images and clouds are encoded on the processors")
    assert f"on the processors [{other}, 1023] without [1023]: " in output
    assert output.count(" without [") == 1


def test_without_the_right_to_real_time_priority_the_node_says_so_and_ticks(
    ros, start, install, config_file
):
    node = [install / "lib/robocache_ros/fusion_node", "--ros-args", "-p"]
    command = [shutil.which("prlimit"), "--rtprio=0", *node, f"config_file:={config_file}"]
    if os.geteuid() == 0:
        drop = [f"--{kind}=-sys_nice" for kind in ("bounding-set", "inh-caps")]
        drop = [shutil.which("setpriv"), *drop]
        if subprocess.run([*drop, "true"]).returncode != 0:
            pytest.skip("this root may not drop its rights")
        command = [*drop, *command]
    tensors = subscribe_tensors(ros, "fused_tensor")
    process = start(*command)
    ros.spin_until(lambda: len(tensors) > 2, "tensors", detail=lambda: process.output)
    refused = "ticks run at ordinary priority: Operation not permitted (os error 1) for real-time priority 20; "
    process.wait_for(refused + "to permit it, give this user an rtprio limit")
    assert threads(process, os.sched_getscheduler)["tick"] == os.SCHED_OTHER
