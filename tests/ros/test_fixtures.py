"""The fixtures and the middleware's profile, which all other tests need."""

import sys

import pytest
from domains import DOMAINS, FIRST_DOMAIN, claimed, domain_is_free, free_domain
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image

IMAGES = 60

# Publishes images like a camera: 0.92 MB at 30 Hz, best effort. It ends by itself.
CAMERA = f"""
import time, rclpy
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
rclpy.init()
node = rclpy.create_node("camera")
publisher = node.create_publisher(Image, "image", qos_profile_sensor_data)
while publisher.get_subscription_count() == 0:
    time.sleep(0.01)
time.sleep(0.5)  # until the subscriber knows the publisher too
image = Image(height=480, width=640, step=1920, encoding="rgb8", data=bytes(480 * 1920))
start = time.monotonic()
for index in range({IMAGES}):
    time.sleep(max(0.0, start + index / 30 - time.monotonic()))
    image.header.stamp.nanosec = index
    publisher.publish(image)
time.sleep(0.5)
node.destroy_node()
rclpy.shutdown()
"""


@pytest.mark.alone
def test_every_large_image_arrives_with_our_profile(ros, start):
    seen = []
    ros.node.create_subscription(
        Image,
        "image",
        lambda image: seen.append(image.header.stamp.nanosec),
        qos_profile_sensor_data,
    )
    camera = start(sys.executable, "-c", CAMERA)
    ros.spin_until(lambda: not camera.running)
    ros.spin_for(0.2)
    assert camera.wait() == 0
    assert seen == list(range(IMAGES))


def test_a_domain_in_use_is_not_taken(ros, domain_id):
    assert not domain_is_free(domain_id)
    assert domain_id not in {free_domain() for _ in range(DOMAINS)}
    assert FIRST_DOMAIN <= domain_id < FIRST_DOMAIN + DOMAINS


def test_a_domain_is_claimed_before_its_ports_are_open():
    domain = free_domain()
    assert domain_is_free(domain) and claimed(domain) is None
    free_domain()
    assert claimed(domain) is not None


def test_a_wrong_exit_code_fails(start):
    process = start(sys.executable, "-c", "raise SystemExit(3)")
    assert process.wait() == 3
    with pytest.raises(AssertionError, match="expected exit code 0, found 3"):
        process.stop()


def test_a_process_that_ignores_the_signal_is_ended(start):
    ignore = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    script = f"{ignore}; print('on', flush=True); time.sleep(60)"
    process = start(sys.executable, "-c", script)
    process.wait_for("on")
    with pytest.raises(pytest.fail.Exception, match="did not end within 0.3 s"):
        process.stop(timeout=0.3)
    assert not process.running
    process.is_stopped = True
