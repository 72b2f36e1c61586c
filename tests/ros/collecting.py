"""A node that records episodes, step by step.

The clock is simulated, and steps when all messages before have been taken. So each recording has exactly what the test
sent, and live tensors are compared with those of the replay.
"""

from contextlib import suppress

import recordings
from fusion import MS, RELIABLE, T0, WRENCH, start_fusion, wrench
from mcap.exceptions import EndOfFile
from mcap.reader import NonSeekingReader
from rclpy.serialization import deserialize_message
from robocache_ros.msg import RecordingEvent
from robocache_ros.srv import Mark, Record
from sensor_msgs.msg import Joy

PERIOD_MS = 10


#: A stream that needs the messages of 50 ms.
STREAM = {**WRENCH, "strategy": "hold", "lag_ms": 20, "history": {"steps": 4, "step_ms": 10}}


class Collecting:
    """A node that records episodes to `folder / "runs"`.

    Args:
        more: streams beside `wrench`.
        kwargs: of `start_fusion`.
    """

    def __init__(self, ros, start, folder, more=None, **kwargs):
        self.ros, self.runs, self.at = ros, folder / "runs", T0
        given = ["-p", f"episodes_to:={self.runs}", "-p", "record_when:=/joy:buttons[0]"]
        config = {"streams": {"wrench": STREAM, **(more or {})}}
        self.joy = ros.node.create_publisher(Joy, "/joy", RELIABLE)
        self.fusion = start_fusion(
            ros, start, folder, config, *given, period_ms=PERIOD_MS, **kwargs
        )
        self.fusion.warm_up()
        self.record = ros.node.create_client(Record, "/fusion_node/record")
        self.mark = ros.node.create_client(Mark, "/fusion_node/mark")
        self.fusion.until(
            lambda: (
                self.joy.get_subscription_count()
                and self.record.service_is_ready()
                and self.mark.service_is_ready()
            ),
            "the node hears the button, and offers its services",
        )

    def run(self, ticks):
        """Sends a wrench per tick to each topic, and waits until each tick is served."""
        for _ in range(ticks):
            for number, topic in enumerate(self.fusion.publishers):
                self.fusion.send(topic, wrench(self.at - MS, self.at // MS % 1000, number, 1))
            self.fusion.tick(self.at)
            self.at += PERIOD_MS * MS

    def call(self, client, request):
        answer = client.call_async(request)
        self.fusion.until(answer.done, "an answer")
        return answer.result()

    def press(self, button):
        self.joy.publish(Joy(buttons=[button]))

    def folder(self):
        """The folder of the episode that is being recorded; empty if none is."""
        return (
            self.fusion.status["recording"][2]["folder"]
            if "recording" in self.fusion.status
            else None
        )

    def begin(self):
        """Presses the button. Returns the folder of the episode."""
        self.press(1)
        self.fusion.until(self.folder, "an episode begins")
        return self.folder()

    def end(self):
        """Releases the button."""
        self.press(0)
        self.has_ended()

    def has_ended(self):
        """Waits until no episode is recorded."""
        self.fusion.until(lambda: self.folder() == "", "the episode ends")

    def note(self, name, value):
        """Notes a mark in the running episode."""
        done = self.call(self.mark, Mark.Request(name=name, value=value))
        assert done.success, done.message

    def close(self):
        """Removes the publishers of a node that has ended. Another one has its own."""
        of_node = [self.joy, *self.fusion.publishers.values()]
        all(map(self.ros.node.destroy_publisher, of_node))

    def is_written(self, folder):
        """True if the files of the running episode have the newest tick."""
        return self.fusion.ticks[-1] in published_ticks(folder)


def published_ticks(recording):
    """The ticks that a recording, which may have no end yet, says were published."""
    ticks = []
    for path in recording.glob("*.mcap"):
        with path.open("rb") as file, suppress(EndOfFile):
            for schema, _, message in NonSeekingReader(file).iter_messages(log_time_order=False):
                if schema.name == recordings.EVENTS:
                    event = deserialize_message(message.data, RecordingEvent)
                    ticks += [event.number] if event.kind == event.PUBLISHED else []
    return ticks
