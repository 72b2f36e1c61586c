"""Reads the recordings of datasets in tests."""

from bags import STORE


def read(recording, topics=None):
    """All messages of a recording by topic: lists of (stamp, bytes)."""
    names = [name for name, _, _ in recording.topics]
    found = {name: [] for name in names}
    newest = 0
    for batch in recording.messages([topics is None or name in topics for name in names]):
        assert len(batch) <= 80 and sum(len(message) for *_, message in batch[:-1]) < 3e6
        for topic, stamp, message in batch:
            assert stamp >= newest
            newest = stamp
            found[names[topic]].append((stamp, message))
    return found


def parsed(recording, topic, message):
    """A message, by rosbags."""
    kinds = {name: kind for name, kind, _ in recording.topics}
    return STORE.deserialize_cdr(message, kinds[topic])


def messages(recording, topic):
    """All messages of a topic, by rosbags."""
    return [parsed(recording, topic, data) for _, data in read(recording, [topic])[topic]]


def positions(recording, topic):
    """All values of a vector: [frames, elements]."""
    import numpy as np

    return np.array([message.position for message in messages(recording, topic)])


def pixels(recording, topic):
    """All pictures of an image that is no compressed one: a list of [height, width, 3]."""
    found = messages(recording, topic)
    assert all(image.encoding == "rgb8" and image.step == 3 * image.width for image in found)
    return [image.data.reshape(image.height, image.width, 3) for image in found]
