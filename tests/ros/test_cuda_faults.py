"""The node when the CUDA driver fails or hangs, at the start and while it runs. Needs a GPU.

The driver is the machine's own. cuda_faults.c makes its functions fail or hang.
"""

import os
import subprocess

import pytest
from conftest import REPOSITORY
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from fusion import RELIABLE, subscribe_tensors
from managed import ACTIVATE, CLEANUP, CONFIGURE, DEACTIVATE, start_managed

CONFIG = REPOSITORY / "config" / "robocache.yaml"


@pytest.fixture
def usable_gpu(start):
    """Skips if the node cannot use a GPU. The reason is the node's own message."""
    # Device 99 does not exist. If the node says which devices exist, it can use one.
    node = start("fusion_node", *arguments("cuda"), "-p", "device:=99", expected_code=1)
    assert node.wait() == 1
    if "device: expected 0 to" not in node.output:
        pytest.skip(node.output.strip().split("ERROR ")[-1])


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """cuda_faults.c, compiled."""
    library = tmp_path_factory.mktemp("faults") / "cuda_faults.so"
    source = REPOSITORY / "tests" / "ros" / "cuda_faults.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def faults(usable_gpu, library):
    """`faults(function, when, status)`: an environment in which this function fails or hangs."""

    def environment(function, when, status):
        fault = f"{function}:{when}:{status}"
        preload = f"{library} {os.environ.get('LD_PRELOAD', '')}"
        return {"LD_PRELOAD": preload, "ROBOCACHE_TEST_FAULT": fault}

    return environment


def arguments(backend):
    return ["--ros-args", "-p", f"config_file:={CONFIG}", "-p", f"backend:={backend}"]


RUNNING = {
    "a launch": (
        ("cuLaunchKernelEx", 500, 719),
        ["failed to launch a kernel: ", "CUDA_ERROR_LAUNCH_FAILED"],
    ),
    "an upload": (
        ("cuMemcpyHtoDAsync_v2", 100, 700),
        [
            "encode a message of stream '",
            "failed to copy to the device: CUDA_ERROR_ILLEGAL_ADDRESS",
        ],
    ),
    "the wait for an upload": (
        ("cuEventSynchronize", 50, 46),
        ["failed to finish the last upload: CUDA_ERROR_DEVICE_UNAVAILABLE"],
    ),
}


@pytest.mark.parametrize("case", RUNNING)
def test_a_failure_while_running_ends_the_node_under_cuda_and_names_the_operation(
    start, faults, case
):
    fault, expected = RUNNING[case]
    node = start("fusion_node", *arguments("cuda"), expected_code=1, env=faults(*fault))
    node.wait_for("on the cuda backend")
    start("sensor_sim", "--wait-subscribers", 1)
    assert node.wait() == 1
    (error,) = [line for line in node.output.splitlines() if "ERROR" in line]
    assert all(words in error for words in expected), error
    assert "panicked" not in node.output


def test_a_tick_that_fails_is_not_published(ros, start, faults):
    tensors = subscribe_tensors(ros, "/fused_tensor")
    environment = faults("cuStreamSynchronize", 300, 46)
    node = start("fusion_node", *arguments("cuda"), expected_code=1, env=environment)
    node.wait_for("on the cuda backend")
    start("sensor_sim", "--wait-subscribers", 1)
    ros.spin_until(lambda: not node.running, "the end of the node", detail=lambda: node.output)
    # What it published before it ended arrives before the news that its publisher is gone.
    ros.spin_until(lambda: ros.node.count_publishers("/fused_tensor") == 0, "its publisher is gone")
    received = None
    while received != len(tensors):
        received = len(tensors)
        ros.executor.spin_once(timeout_sec=0.1)
    (error,) = [line for line in node.output.splitlines() if "ERROR" in line]
    assert "failed to fuse: CUDA_ERROR_DEVICE_UNAVAILABLE" in error
    failed = int(error.split("fuse tick ")[1].split(":")[0])
    assert tensors and max(tensor.tick for tensor in tensors) < failed


#: When the GPU fails under `auto` [s after the start]: the node has used it by then.
FAULT_S = 8
WHEN = f"{FAULT_S}s"
#: The node stops using a GPU that hangs for this time [s].
HANG_S = 5

LEFT = {
    "a launch": (("cuLaunchKernelEx", WHEN, 719), "CUDA_ERROR_LAUNCH_FAILED"),
    "an upload": (("cuMemcpyHtoDAsync_v2", WHEN, 700), "failed to copy to the device: CUDA_ERROR"),
    "the wait for a row": (("cuStreamQuery", WHEN, 46), "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    "a lost device": (("any", WHEN, 46), "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    "a launch that hangs": (
        ("cuLaunchKernelEx", WHEN, "hang"),
        f"it did not encode a message within {HANG_S} s",
    ),
    "a device that hangs": (
        ("any", WHEN, "hang"),
        f"it did not encode a message within {HANG_S} s",
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_auto_leaves_a_gpu_that_fails_and_loses_no_tick_and_no_message(ros, start, faults, case):
    fault, expected = LEFT[case]
    tensors = subscribe_tensors(ros, "/fused_tensor")
    status = subscribe_status(ros)
    node = start("fusion_node", *arguments("auto"), env=faults(*fault))
    node.wait_for("on the cpu+cuda backend")
    start("sensor_sim", "--wait-subscribers", 1)
    # If a core is faster, the GPU gets a message only now and then.
    ros.spin_until(
        lambda: "the GPU was left" in node.output, "the GPU is left", detail=lambda: node.output
    )
    before = len(tensors)
    assert before > 0, node.output
    ros.spin_until(
        lambda: len(tensors) > before + 300, "tensors after it", detail=lambda: node.output
    )

    (line,) = [line for line in node.output.splitlines() if "the GPU was left" in line]
    assert "WARN" in line and expected in line
    assert "ERROR" not in node.output and "panicked" not in node.output
    # The ticks before and after the failure, without the start.
    ticks = [tensor.tick for tensor in tensors[-600:]]
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks))), node.output
    assert status["tick"].level == DiagnosticStatus.WARN
    assert expected in values(status["tick"])["gpu"]
    for stream in ("camera_front", "camera_wrist", "lidar"):
        numbers = values(status[stream])
        assert numbers["encoder"] == "cpu"
        assert numbers["dropped"] == "0"
        # The numbers are read one after the other, while messages come.
        encoded = int(numbers["encoded_by_cpu"]) + int(numbers["encoded_by_gpu"])
        assert abs(encoded - int(numbers["rows"])) <= 1
    # A GPU that hangs does not stop the node from ending.
    node.stop()


def test_a_managed_node_that_left_its_gpu_is_configured_again_on_the_cpu(ros, start, faults):
    env = faults("any", WHEN, "hang")
    tensors = subscribe_tensors(ros, "/fused_tensor")
    node = start_managed(ros, start, config_file=CONFIG, env=env)
    node.must(CONFIGURE, ACTIVATE)
    start("sensor_sim", "--wait-subscribers", 1)
    node.until(lambda: "the GPU was left" in node.process.output, "the GPU is left")
    # The driver still hangs, so nothing may call it.
    node.must(DEACTIVATE, CLEANUP, CONFIGURE, ACTIVATE)
    before = len(tensors)
    node.until(lambda: len(tensors) > before + 50, "tensors")
    lines = node.process.output.splitlines()
    (line,) = [line for line in lines if "computing on the CPU: " in line]
    assert "WARN" in line and "this process left a GPU after a failure" in line
    assert node.process.stop() == 0


def subscribe_status(ros):
    """A dict that fills with the newest status of each part of the node."""
    status = {}

    def note(message):
        status.update((part.name.split(": ")[1], part) for part in message.status)

    ros.node.create_subscription(DiagnosticArray, "/diagnostics", note, RELIABLE)
    return status


def values(status):
    """The values of a status by their keys."""
    return {pair.key: pair.value for pair in status.values}


STARTING = {
    "device memory": (("cuMemAlloc_v2", 5, 2), "CUDA_ERROR_OUT_OF_MEMORY"),
    "pinned memory": (("cuMemHostAlloc", 1, 2), "CUDA_ERROR_OUT_OF_MEMORY"),
    "the driver": (("cuInit", 0, 803), "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
}


@pytest.mark.parametrize("case", STARTING)
def test_a_failure_at_the_start_ends_the_node_under_cuda(start, faults, case):
    fault, expected = STARTING[case]
    node = start("fusion_node", *arguments("cuda"), expected_code=1, env=faults(*fault))
    assert node.wait() == 1
    assert "start the backend: backend cuda: " in node.output
    assert expected in node.output and "panicked" not in node.output


@pytest.mark.parametrize("case", STARTING)
def test_auto_takes_the_cpu_after_a_failure_at_the_start(ros, start, faults, case):
    fault, expected = STARTING[case]
    tensors = subscribe_tensors(ros, "/fused_tensor")
    node = start("fusion_node", *arguments("auto"), env=faults(*fault))
    start("sensor_sim", "--wait-subscribers", 1)
    ros.spin_until(lambda: len(tensors) > 10, "tensors", detail=lambda: node.output)
    (warning,) = [line for line in node.output.splitlines() if "computing on the CPU" in line]
    assert "WARN" in warning and expected in warning
    assert "on the cpu backend" in node.output
