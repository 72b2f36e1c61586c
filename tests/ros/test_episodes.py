"""Episodes of a node that works: by a button, and by the services `record` and `mark`.

The clock is simulated, and steps when all messages before have been taken. So each recording has exactly what the test
sent, and live tensors are compared with those of the replay.
"""

import configuration
import recordings
from fusion import MS, RELIABLE, T0, WRENCH, start_fusion, wrench
from rclpy.serialization import deserialize_message
from robocache_ros.msg import FusedTensor
from robocache_ros.srv import Mark, Record
from sensor_msgs.msg import Joy

PERIOD_MS = 10


class Collecting:
    """A node that records episodes to `folder / "runs"`."""

    def __init__(self, ros, start, folder):
        self.ros, self.runs, self.at = ros, folder / "runs", T0
        given = ["-p", f"episodes_to:={self.runs}", "-p", "record_when:=/joy:buttons[0]"]
        stream = {
            **WRENCH,
            "strategy": "hold",
            "lag_ms": 20,
            "history": {"steps": 4, "step_ms": 10},
        }
        config = {"streams": {"wrench": stream}}
        self.joy = ros.node.create_publisher(Joy, "/joy", RELIABLE)
        self.fusion = start_fusion(ros, start, folder, config, *given, period_ms=PERIOD_MS)
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
        """Sends a wrench per tick, and waits until each tick is served."""
        for _ in range(ticks):
            self.fusion.send("wrench", wrench(self.at - MS, self.at // MS % 1000, 0, 1))
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


def expect_equal(recording):
    report = recordings.verify(configuration.program(), recording)
    assert report["different"] == [] and report["complete"] and report["problems"] == []
    assert report["unverifiable"] == 0
    return report["equal"]


def test_episodes_by_a_button_are_those_of_the_node_from_the_first_tick_on(ros, start, tmp_path):
    node = Collecting(ros, start, tmp_path)
    node.run(20)
    folders = []
    for _ in range(3):
        node.press(1)
        node.fusion.until(node.folder, "an episode begins")
        folders.append(node.folder())
        node.press(1)  # Held: that begins no other.
        node.run(20)
        node.press(0)
        node.fusion.until(lambda: node.folder() == "", "the episode ends")
        node.run(5)
    node.fusion.process.stop()
    assert len(set(folders)) == 3 and sorted(map(str, node.runs.iterdir())) == sorted(folders)
    assert [expect_equal(folder) for folder in folders] == [20, 20, 20]
    config, out = tmp_path / "config.yaml", tmp_path / "out"
    for folder in folders:
        tensors = recordings.replay(configuration.program(), folder, config, out / folder[-8:])
        assert len(tensors) == 20
        # The rings were full before the first tick.
        assert all(deserialize_message(tensors[0], FusedTensor).segments[0].valid)


def test_the_services_name_episodes_and_note_marks(ros, start, tmp_path):
    node = Collecting(ros, start, tmp_path)
    node.run(10)
    done = node.call(node.record, Record.Request(start=False))
    assert (done.success, done.message) == (False, "no episode is being recorded")
    begun = node.call(node.record, Record.Request(start=True, name="pick_1", task="pick the cup"))
    assert (begun.success, begun.folder) == (True, str(node.runs / "pick_1")), begun.message
    again = node.call(node.record, Record.Request(start=True))
    assert not again.success and again.message.startswith("an episode is being recorded: ")
    node.run(10)
    assert node.call(node.mark, Mark.Request(name="success", value="true")).success
    wrong = node.call(node.mark, Mark.Request(name="a b"))
    assert not wrong.success and "expected 1 to 64 letters" in wrong.message
    ended = node.call(node.record, Record.Request(start=False))
    assert (ended.success, ended.folder) == (True, begun.folder), ended.message
    node.fusion.process.stop()
    assert expect_equal(begun.folder) == 10
