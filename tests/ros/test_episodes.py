"""Episodes of a node that works: by a button, and by the services `record` and `mark`."""

import configuration
import recordings
from collecting import Collecting
from rclpy.serialization import deserialize_message
from robocache_ros.msg import FusedTensor
from robocache_ros.srv import Mark, Record


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
        folders.append(node.begin())
        node.press(1)  # Held: that begins no other.
        node.run(20)
        node.end()
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
