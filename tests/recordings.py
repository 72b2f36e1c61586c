"""Recordings and bags of the tests, read and written by mcap's own reader and writer."""

import json
from contextlib import suppress
from pathlib import Path

import waiting
from mcap.exceptions import EndOfFile
from mcap.reader import NonSeekingReader
from mcap.writer import Writer

#: The type of the events that say how the node took each message.
EVENTS = "robocache_ros/msg/RecordingEvent"


def folder_of(parent):
    """The only recording in this folder."""
    (recording,) = Path(parent).iterdir()
    return recording


def messages_of(recording):
    """(receive stamp [ns], topic, type, bytes) of the messages of a recording, by receive stamp."""
    found = []
    for path in sorted(Path(recording).glob("*.mcap")):
        # A node that was killed leaves a file without an end.
        with path.open("rb") as file, suppress(EndOfFile):
            for schema, channel, message in NonSeekingReader(file).iter_messages(
                log_time_order=False
            ):
                if schema.name != EVENTS:
                    found.append((message.log_time, channel.topic, schema.name, message.data))
    return sorted(found, key=lambda message: message[0])


def write_bag(path, messages):
    """Writes messages, as `messages_of` gives them, without definitions."""
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile="ros2", library="test")
        channels = {}
        for stamp, topic, kind, data in sorted(messages, key=lambda message: message[0]):
            if topic not in channels:
                schema = writer.register_schema(kind, "ros2msg", b"")
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], stamp, data, stamp)
        writer.finish()
    return path


def replay(program, bag, config, out, *options):
    """Replays a bag. Returns the serialized tensors in their order."""
    command = [program, "replay", bag, "--config", config, "--out", out, *options]
    done = waiting.run(command)
    assert done.returncode == 0, done.stderr
    (path,) = Path(out).glob("*.mcap")
    with path.open("rb") as file:
        read = NonSeekingReader(file).iter_messages()
        return [message.data for schema, _, message in read if schema.name.endswith("/FusedTensor")]


def verify(program, recording, *options, expect=0):
    """Verifies a recording. Returns the report."""
    command = [program, "verify", recording, "--json", *options]
    done = waiting.run(command)
    assert done.returncode == expect, (done.returncode, done.stdout[-2000:], done.stderr)
    return json.loads(done.stdout)
