"""Episodes as a node records them, by mcap's own writer: a folder each, with the record that names the episode, and marks."""

import json

from bags import serialized
from mcap.writer import Writer

_METADATA = """\
rosbag2_bagfile_information:
  version: 5
  storage_identifier: mcap
  duration: {{nanoseconds: {length}}}
  starting_time: {{nanoseconds_since_epoch: {begin}}}
  message_count: {count}
  topics_with_message_count: []
  compression_format: ""
  compression_mode: ""
  relative_file_paths: ["{file}"]
"""


def record(runs, name, messages, *, task="", marks=(), killed=False):
    """Writes an episode into the folder `runs`. It is there with its last file, as for those who look while a node records.

    Args:
        messages: (topic, receive stamp [ns], message).
        task: text.
        marks: (stamp [ns], name, value).
        killed: True if the node was killed: two thirds of the file are there, and no metadata.yaml.
    """
    folder = runs / name
    folder.mkdir(parents=True)
    file, begin = folder / f"{name}_0.mcap", messages[0][1]
    values = {"version": "test", "config_file": "", "configuration": "", "backend": "cpu"}
    values |= {"use_sim_time": "false", "digest": "true"}
    values |= {"episode": name, "episode_task": task, "episode_begins_ns": str(begin)}
    with file.open("wb") as stream:
        writer = Writer(stream, chunk_size=1 << 16)
        writer.start("ros2", "a test")
        writer.add_metadata("robocache_recording", values)
        channels = {}
        for topic, received, message in messages:
            if topic not in channels:
                schema = writer.register_schema(message.__msgtype__, "ros2msg", b"")
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], received, serialized(message), received)
        writer.finish()
    noted = [{"at_ns": at, "name": of, "value": value} for at, of, value in marks]
    (folder / "marks.json").write_text(json.dumps(noted))
    if killed:
        file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
        return folder
    length = messages[-1][1] - begin
    text = _METADATA.format(length=length, begin=begin, count=len(messages), file=file.name)
    partial = folder / "metadata.partial"
    partial.write_text(text)
    partial.rename(folder / "metadata.yaml")
    return folder
