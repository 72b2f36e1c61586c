"""What was noted in recordings, as columns of a LeRobot dataset."""

from types import SimpleNamespace

import numpy as np

from robocache.lerobot.columns import _mark, marks_of
from robocache.training.selection import value_of

MARKS = [
    {"at_ns": 20, "name": "success", "value": "true"},
    {"at_ns": 30, "name": "success", "value": "no"},
    {"at_ns": None, "name": "grip", "value": "0.5"},
]


def frames_of(stamps):
    """Three frames of an episode with marks, and then those of one without."""
    episodes = [{"marks": MARKS}, {}]
    tensors = SimpleNamespace(
        about={"episodes": episodes}, episode_of=lambda tick: 0 if tick < 3 else 1
    )
    return SimpleNamespace(tensors=tensors, plain=lambda name, first, end: stamps[first:end])


def test_a_column_has_the_number_of_the_newest_mark():
    frames = frames_of(np.array([10, 20, 30, 10, 20], np.int64))
    assert marks_of(frames.tensors) == ["grip", "success"]
    success, grip = _mark("success"), _mark("grip")
    assert success.key == "mark.success" and success.feature["shape"] == (1,)
    assert success.read(frames, 0, 3).tolist() == [[0], [1], [0]]
    assert grip.read(frames, 0, 3).tolist() == [[0.5], [0.5], [0.5]]
    assert success.read(frames, 3, 5).tolist() == [[0], [0]]


def test_a_text_is_a_number():
    texts = ("2.5", "false", "No", "dropped the cup", "")
    assert [value_of(text) for text in texts] == [2.5, 0, 0, 1, 1]
