"""Operators: a scale, an angle without jumps, and a rotation as six numbers."""

import numpy as np
from fusion import MS, T0, streams
from in_process import InProcess
from scipy.spatial.transform import Rotation, Slerp
from test_messages import joint_state, pose

STEPS = 5
STREAMS = streams(
    joints={
        "type": "sensor_msgs/msg/JointState",
        "strategy": "linear",
        "joints": ["slide", "wheel"],
        "angular": ["wheel"],
        "history": {"steps": STEPS, "step_ms": 10},
        "dtype": "f16",
        "max_age_ms": 200,
        "operators": [
            {"scale": 1000, "of": ["slide"]},
            {"offset": -500, "of": ["slide"]},
            {"unwrap": True, "of": ["wheel"]},
            {"clamp": [-200, 100], "of": ["slide"]},
        ],
    },
    pose={
        "type": "geometry_msgs/msg/PoseStamped",
        "strategy": "slerp",
        "operators": [
            {"rotation_6d": "columns", "of": ["orientation"]},
            {"scale": 0.5, "of": ["position"]},
        ],
    },
)


def send_joints(fusion, ns, slide, wheel):
    fusion.send("/joints", joint_state(ns, ["wheel", "slide"], [wheel, slide]))


def test_operators_act_on_the_value_at_the_target_and_bad_values_are_dropped():
    fusion = InProcess({"streams": STREAMS})
    # Between two targets each, so that every value is interpolated.
    stamps = T0 + (np.arange(-6, 2) * 10 - 5) * MS
    slide = np.linspace(0.0, 0.7, len(stamps))
    turned = 2.5 + 0.8 * np.arange(len(stamps))  # from 2.5 rad up, through pi
    wrapped = (turned + np.pi) % (2 * np.pi) - np.pi
    assert np.abs(np.diff(wrapped)).max() > np.pi, "the sensor's angle jumps"
    for stamp, *values in zip(stamps.tolist(), slide, wrapped):
        send_joints(fusion, stamp, *values)
    turns = Rotation.from_euler("xyz", [[0.3, -0.2, 0.1], [1.2, 0.4, -2.0]])
    places = np.array([[1.0, 2.0, -3.0], [1.5, 2.5, 4.0]])
    for stamp, place, turn in zip((T0 - 5 * MS, T0 + 15 * MS), places, turns):
        fusion.send("/pose", pose(stamp, place, turn.as_quat()))
    got = fusion.tick(T0)

    targets = T0 + np.arange(1 - STEPS, 1) * 10 * MS
    since = (stamps - T0) / MS, (targets - T0) / MS
    along = np.clip(1000 * np.interp(since[1], since[0], slide) - 500, -200, 100)
    assert along[0] == -200 and along[-1] == 100 and -200 < along[2] < 100
    around = np.interp(since[1], since[0], turned)
    # The newest angle is as the short arc has it; the others follow it backwards.
    around -= 2 * np.pi * np.round(around[-1] / (2 * np.pi))
    assert got["joints"].valid == [True] * STEPS
    # Half precision has 11 bits.
    np.testing.assert_allclose(got["joints"].array[:, 0], along, rtol=6e-4)
    np.testing.assert_allclose(got["joints"].array[:, 1], around, atol=3e-3)
    turn = Slerp([0, 1], turns)(0.25)
    columns = turn.as_matrix()[:, :2].T.ravel()
    expected = [*(0.5 * (0.75 * places[0] + 0.25 * places[1])), *columns]
    assert got["pose"].valid == [True]
    np.testing.assert_allclose(got["pose"].array[0], expected, atol=1e-6)

    # Malformed twins: no operator makes a bad number good.
    now = T0 + 10 * MS
    send_joints(fusion, now, float("nan"), 0.0)
    assert fusion.value("joints", "dropped.non_finite") == 1
    bad = pose(now, (1e39, 0, 0), (0, 0, 0, 1)), pose(now, places[0], (0, 0, 0, 0))
    fusion.check_drops("/pose", [(message, "out_of_range") for message in bad])
    assert fusion.value("joints", "rows") == len(stamps) and fusion.value("pose", "rows") == 2
    assert fusion.tick(now)["pose"].valid == [True]
