"""Reads the recordings of datasets in tests."""

from types import SimpleNamespace

import bags
import numpy as np

JOINT_STATE, IMAGE = "sensor_msgs/msg/JointState", "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"


def read(recording, topics=None):
    """All arrays of a recording by topic: lists of (stamp, bytes)."""
    names = [name for name, *_ in recording.topics]
    found = {name: [] for name in names}
    newest = 0
    for batch in recording.arrays([topics is None or name in topics for name in names]):
        assert len(batch) <= 80 and sum(len(data) for *_, data in batch[:-1]) < 3e6
        for topic, stamp, data in batch:
            assert stamp >= newest
            newest = stamp
            found[names[topic]].append((stamp, data))
    return found


def parsed(recording, topic, data):
    """The array of a frame: names and positions of joints, pixels, or the bytes of a picture."""
    arrays = {name: (kind, array) for name, kind, _, array in recording.topics}
    kind, array = arrays[topic]
    if kind == JOINT_STATE:
        return SimpleNamespace(name=array, position=np.frombuffer(data, "<f8"))
    if kind == COMPRESSED_IMAGE:
        assert array is None
        return data
    return np.frombuffer(data, np.uint8).reshape(*array, 3)


def message(recording, topic, stamp, data):
    """The message with the array of a frame."""
    found = parsed(recording, topic, data)
    if isinstance(found, bytes):
        form, data = "png" if found[:4] == b"\x89PNG" else "jpeg", np.frombuffer(found, np.uint8)
        return bags.made(COMPRESSED_IMAGE, header=bags.header(stamp), format=form, data=data)
    if isinstance(found, np.ndarray):
        return bags.image(stamp, found)
    return bags.joints(stamp, **dict(zip(found.name, found.position, strict=True)))


def messages(recording, topic):
    """The arrays of a topic in all frames."""
    return [parsed(recording, topic, data) for _, data in read(recording, [topic])[topic]]


def positions(recording, topic):
    """All values of a vector: [frames, elements]."""
    return np.array([joints.position for joints in messages(recording, topic)])


def pixels(recording, topic):
    """All pictures of an image that is no file: a list of [height, width, 3]."""
    return messages(recording, topic)
