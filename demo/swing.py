"""The part of the demo with an object that a camera and a joint see: `one_instant` measures how well they agree.

    python3 demo/swing.py      # publishes both until SIGINT

The object swings on a joint. The joint's angle is published at once, a picture of the object 60 ms after its exposure, as
cameras are whose pictures are read out, encoded and sent. Both have the stamp of the measurement.
"""

import signal
import time

import numpy as np
import rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image, JointState

#: The angle is AMPLITUDE_RAD * sin(tau * t / PERIOD_NS).
AMPLITUDE_RAD = 0.7
PERIOD_NS = 1_400_000_000
#: Time between two messages of the joint and between two pictures [ns].
JOINT_NS, PICTURE_NS = 10_000_000, 33_333_333
#: Time from a picture's exposure to its message [ns].
DELAY_NS = 60_000_000
#: Size of a picture [px]. A column is PIXEL_RAD of the angle, and the object's half width is HALF_PX.
WIDTH, HEIGHT, HALF_PX = 320, 16, 12
PIXEL_RAD = 2.0 / WIDTH
QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)


def angle(ns):
    """The true angle at an instant [rad]. The instant is reduced in integers, so that no digit of it is lost."""
    return AMPLITUDE_RAD * np.sin(2 * np.pi * (np.asarray(ns) % PERIOD_NS) / PERIOD_NS)


def picture(ns):
    """Lines of grey pixels: the object is white, and its edges are as bright as the part of the pixel that it covers."""
    center = angle(ns) / PIXEL_RAD + WIDTH / 2
    left = np.arange(WIDTH)
    covered = np.minimum(left + 1, center + HALF_PX) - np.maximum(left, center - HALF_PX)
    line = np.round(255 * np.clip(covered, 0, 1)).astype(np.uint8)
    return np.repeat(line[None], HEIGHT, axis=0)


def seen_angle(row):
    """The angle at which a picture shows the object [rad]; None without one. `row` has lines of grey values from 0."""
    light = np.asarray(row, np.float64).sum(axis=0)
    if light.sum() <= 0:
        return None
    columns = (np.arange(light.size) + 0.5) / light.size
    return float(((columns * light).sum() / light.sum() - 0.5) * WIDTH * PIXEL_RAD)


def stamped(message, ns):
    """The message with this stamp."""
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(ns, 1_000_000_000)
    return message


def main():
    """Publishes both until SIGINT. What is too late by a period is left out."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    node = rclpy.create_node("object")
    joints = node.create_publisher(JointState, "/object/joint_states", QOS)
    images = node.create_publisher(Image, "/object/image_raw", QOS)
    now = time.time_ns()
    next_joint, next_picture = (now // period * period for period in (JOINT_NS, PICTURE_NS))
    try:
        while True:
            now = time.time_ns()
            if now >= next_joint:
                position = [float(angle(next_joint))]
                joints.publish(stamped(JointState(name=["swing"], position=position), next_joint))
                next_joint = max(next_joint, now - JOINT_NS) + JOINT_NS
            if now >= next_picture + DELAY_NS:
                data = picture(next_picture).tobytes()
                image = Image(width=WIDTH, height=HEIGHT, step=WIDTH, encoding="mono8", data=data)
                images.publish(stamped(image, next_picture))
                next_picture = max(next_picture, now - DELAY_NS - PICTURE_NS) + PICTURE_NS
            until = min(next_joint, next_picture + DELAY_NS)
            time.sleep(max(0, until - time.time_ns()) / 1e9)
    except KeyboardInterrupt:
        pass
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
