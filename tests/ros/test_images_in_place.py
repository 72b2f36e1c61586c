"""A GPU reads images where they were taken. No message comes into memory that an upload still reads.

The driver is fake_cuda.c, which keeps an account of registered memory and of the uploads from it. No GPU is needed, but
a node that was built with CUDA.
"""

import os
from array import array
from collections import Counter

import fake_driver
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from fusion import write_config
from managed import ACTIVATE, CLEANUP, CONFIGURE, DEACTIVATE, start_managed
from sensor_msgs.msg import Image

#: Few ticks: none of them ends an upload before the next image comes.
CONFIG = {
    "rate_hz": 1,
    "lag_ms": 0,
    "streams": {
        "camera": {
            "type": "sensor_msgs/msg/Image",
            "topic": "/camera",
            "max_age_ms": 5000,
            "dtype": "u8",
            "timeline": "receive",
            "image": {"resize": {"width": 8, "height": 8}},
        }
    },
}
#: Buffers of a stream: those of the messages that wait for a worker, and four.
MOST = 8


@pytest.fixture
def attributes(request):
    """What the device says of itself, by the numbers of CUdevice_attribute."""
    return getattr(request, "param", "91=1")


@pytest.fixture
def driver(tmp_path, monkeypatch, attributes):
    """`driver()`: how often the driver noted each thing so far."""
    calls = tmp_path / "calls"
    calls.write_text("")
    folder = tmp_path / "driver"
    folder.mkdir()
    fake_driver.build(folder)
    libraries = os.pathsep.join([str(folder), os.environ.get("LD_LIBRARY_PATH", "")])
    monkeypatch.setenv("LD_LIBRARY_PATH", libraries)
    monkeypatch.setenv("FAKE_CUDA_CALLS", str(calls))
    monkeypatch.setenv("FAKE_CUDA_ATTRIBUTES", attributes)
    return lambda: Counter(calls.read_text().split())


@pytest.fixture
def node(ros, driver, start, tmp_path):
    """A managed node on the `cuda` backend. Skips if the node was built without CUDA."""
    config = write_config(tmp_path, CONFIG)
    arguments = ["--ros-args", "-p", f"config_file:={config}", "-p", "backend:=cuda"]
    probe = start("fusion_node", *arguments, "-p", "device:=99", expected_code=1)
    assert probe.wait() == 1
    if "device: expected 0" not in probe.output:
        pytest.skip(probe.output.strip().split("ERROR ")[-1])
    return start_managed(ros, start, config_file=config, backend="cuda")


class Camera:
    """Publishes images, each when the node has encoded the one before: that is far more often than ticks."""

    def __init__(self, ros, node):
        self.ros, self.node = ros, node
        #: The node's number of rows, from its diagnostics.
        self.rows = {}
        self._publisher = ros.node.create_publisher(Image, "/camera", 10)
        ros.node.create_subscription(DiagnosticArray, "/diagnostics", self._note, 10)

    def _note(self, message):
        for status in message.status:
            if status.name.endswith(": camera"):
                self.rows = {pair.key: pair.value for pair in status.values}

    def begin(self):
        """Waits until the node, which has just become active, knows the publisher."""
        self.rows = {}
        self.node.until(
            lambda: (
                self._publisher.get_subscription_count() == 1
                and self.rows.get("publishers") == "1"
                and self.rows["qos"] == "reliable, volatile"
            ),
            "the node finds the camera",
        )

    def publish(self, count, width, height):
        """Publishes images of changing bytes."""
        image = Image(width=width, height=height, encoding="rgb8", step=3 * width)
        before = int(self.rows["rows"])
        for number in range(1, count + 1):
            image.data = array("B", bytes([number % 251]) * (height * image.step))
            self._publisher.publish(image)
            self.node.until(
                lambda number=number: int(self.rows["rows"]) == before + number, "the next row"
            )


@pytest.fixture
def camera(ros, node):
    return Camera(ros, node)


@pytest.mark.slow("images")
def test_no_message_comes_into_memory_that_an_upload_reads(node, camera, driver):
    node.must(CONFIGURE, ACTIVATE)
    camera.begin()
    camera.publish(40, 320, 240)
    # An image without a buffer is copied. The next one has a new buffer.
    small = driver()
    assert small["upload"] == 40 - small["cuMemHostRegister"]
    assert 2 <= small["cuMemHostRegister"] <= MOST
    # Larger images get larger buffers. The others are given back.
    camera.publish(40, 640, 480)
    large = driver() - small
    assert large["upload"] == 40 - large["cuMemHostRegister"]
    assert 2 <= large["cuMemHostRegister"] <= MOST
    assert large["cuMemHostUnregister"] == small["cuMemHostRegister"]
    node.must(DEACTIVATE, CLEANUP)
    ended = driver()
    assert ended["cuMemHostUnregister"] == ended["cuMemHostRegister"]
    node.must(CONFIGURE, ACTIVATE)
    camera.begin()
    camera.publish(20, 640, 480)
    again = driver() - ended
    assert again["upload"] == 20 - again["cuMemHostRegister"] >= 20 - MOST
    assert not {"changed", "lost"} & driver().keys()


@pytest.mark.parametrize("attributes", ["99=0"], indirect=True)
def test_if_the_driver_registers_no_memory_images_are_copied(node, camera, driver):
    node.must(CONFIGURE, ACTIVATE)
    camera.begin()
    camera.publish(30, 320, 240)
    node.must(DEACTIVATE)
    assert node.process.output.count("images are copied once more") == 1
    assert not {"upload", "cuMemHostRegister"} & driver().keys()
