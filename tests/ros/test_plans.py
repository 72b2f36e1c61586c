"""Plans as planners and controllers send them: trajectory_msgs/JointTrajectory."""

import numpy as np
from builtin_interfaces.msg import Duration
from fusion import MS, T0, f32, stamped, start_fusion, streams
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

CONFIG = {
    "streams": streams(
        plan={
            "type": "trajectory_msgs/msg/JointTrajectory",
            "strategy": "linear",
            "fields": ["positions", "velocities"],
            "joints": ["shoulder", "elbow"],
            "horizon": {"steps": 5, "step_ms": 100},
            "history": {"steps": 2, "step_ms": 10},
            "max_gap_ms": 1000,
        }
    )
}
#: The targets of the stream, from the tick [ms].
TARGETS_MS = np.array([-10, 0, 100, 200, 300, 400])


def plan(ns, times_ms, positions, **changes):
    """A plan of the elbow and the shoulder, whose positions are equal and whose velocity is 2."""
    points = [
        JointTrajectoryPoint(
            **{
                "positions": [float(at)] * 3,
                "velocities": [2.0] * 3,
                "time_from_start": Duration(sec=ms // 1000, nanosec=ms % 1000 * MS),
                **changes,
            }
        )
        for ms, at in zip(times_ms, positions)
    ]
    names = ["elbow", "wrist", "shoulder"]
    return stamped(JointTrajectory, ns, joint_names=names, points=points)


def test_plans_are_served_ahead_replaced_and_stopped(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, CONFIG).warm_up()
    fusion.advance(T0)
    fusion.send("/plan", plan(T0, [0, 200, 500], [0, 20, 50]))
    got = fusion.tick(T0 + 50 * MS)["plan"]
    expected = 0.1 * (50 + TARGETS_MS)
    assert got.valid == [True] * 6
    assert got.target_ns == [T0 + 50 * MS + ms * MS for ms in TARGETS_MS]
    # Shoulder and elbow, then their velocities.
    velocity = np.full(6, 2.0)
    rows = np.stack([expected, expected, velocity, velocity], axis=1)
    np.testing.assert_allclose(got.array, rows, rtol=1e-6)

    # It starts in the future. The plan before stays until then.
    fusion.send("/plan", plan(T0 + 150 * MS, [100, 400], [0, 0]))
    got = fusion.tick(T0 + 100 * MS)["plan"]
    np.testing.assert_allclose(got.array[:, 0], f32([9, 10, 7.5, 0, 0, 0]), rtol=1e-6)
    assert got.valid == [True] * 6

    # A stop at once: the plan ends, and its last value is held up to max_age_ms.
    fusion.advance(T0 + 110 * MS)
    fusion.send("/plan", JointTrajectory())
    got = fusion.tick(T0 + 140 * MS)["plan"]
    assert got.valid == [True, True, False, False, False, False]
    assert 0 <= got.age_ns[1] <= 30 * MS

    # The malformed twins are dropped and counted.
    half = plan(T0 + 140 * MS, [0, 100], [1, 2])
    half.points[1].velocities = []
    fusion.send("/plan", half)
    fusion.send("/plan", plan(T0 + 140 * MS, [100, 100], [1, 2]))
    fusion.send("/plan", plan(T0 + 140 * MS, [0, 70_000], [1, 2]))
    fusion.send("/plan", plan(T0, [0, 50], [1, 2]))
    fusion.send("/plan", plan(T0 + 140 * MS, range(1025), range(1025)))
    fusion.tick(T0 + 150 * MS)
    for reason in ("missing_field", "malformed", "ahead", "late", "too_large"):
        fusion.await_value("plan", f"dropped.{reason}", 1)
    fusion.process.wait_for("points[1].velocities: expected a value for each of 3 joints")

    # A stamp of zero means now.
    now = plan(0, [0, 900], [5, 5])
    fusion.send("/plan", now)
    got = fusion.tick(T0 + 200 * MS)["plan"]
    assert got.valid[1:] == [True] * 5
    np.testing.assert_array_equal(got.array[1:, 0], f32([5] * 5))
    fusion.fence()
    # A pause between plans is no fault, so no report blames a clock or a lag.
    said = " ".join(words for part, words in fusion.said if part == "plan")
    assert "synchronise" not in said and "lag_ms" not in said and "no message in" not in said
