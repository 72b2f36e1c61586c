"""Every vector type as drivers may send it, and its tensor, value by value; the vectors through a node."""

import numpy as np
import pytest
from fusion import MS, T0, f32, segments, stamped, start_fusion, streams, wrench
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped, TwistStamped
from in_process import InProcess
from nav_msgs.msg import OccupancyGrid, Odometry
from sensor_msgs.msg import Imu, JointState, MagneticField

JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "fields": ["velocity", "position", "effort"],
    "joints": ["hip", "knee", "ankle"],
}


def set_xyz(target, values):
    target.x, target.y, target.z = map(float, values)


def set_xyzw(target, values):
    target.x, target.y, target.z, target.w = map(float, values)


def imu(ns, orientation, angular, linear):
    message = stamped(Imu, ns)
    set_xyzw(message.orientation, orientation)
    set_xyz(message.angular_velocity, angular)
    set_xyz(message.linear_acceleration, linear)
    # Covariances are between the fields; the node must skip them.
    message.orientation_covariance[:] = np.arange(9) + 100.0
    message.angular_velocity_covariance[:] = np.arange(9) + 200.0
    return message


def pose(ns, position, orientation):
    message = stamped(PoseStamped, ns)
    set_xyz(message.pose.position, position)
    set_xyzw(message.pose.orientation, orientation)
    return message


def odometry(ns, position, orientation, linear, angular):
    message = stamped(Odometry, ns, child_frame_id="some_link")
    set_xyz(message.pose.pose.position, position)
    set_xyzw(message.pose.pose.orientation, orientation)
    set_xyz(message.twist.twist.linear, linear)
    set_xyz(message.twist.twist.angular, angular)
    message.pose.covariance[:] = np.arange(36) + 100.0
    message.twist.covariance[:] = np.arange(36) + 200.0
    return message


def joint_state(ns, names, position=(), velocity=(), effort=()):
    return stamped(
        JointState,
        ns,
        name=list(names),
        position=[float(v) for v in position],
        velocity=[float(v) for v in velocity],
        effort=[float(v) for v in effort],
    )


VECTORS = streams(
    joints=JOINTS,
    wrench={"type": "geometry_msgs/msg/WrenchStamped"},
    wrench_f16={"type": "geometry_msgs/msg/WrenchStamped", "topic": "/wrench", "dtype": "f16"},
    wrench_bf16={"type": "geometry_msgs/msg/WrenchStamped", "topic": "/wrench", "dtype": "bf16"},
    imu={"type": "sensor_msgs/msg/Imu"},
    imu_part={
        "type": "sensor_msgs/msg/Imu",
        "topic": "/imu",
        "fields": ["linear_acceleration", "orientation"],
    },
    pose={"type": "geometry_msgs/msg/PoseStamped"},
    twist={"type": "geometry_msgs/msg/TwistStamped"},
    odom={"type": "nav_msgs/msg/Odometry"},
    amcl={"type": "geometry_msgs/msg/PoseWithCovarianceStamped"},
    compass={"type": "sensor_msgs/msg/MagneticField"},
)


def bf16(values):
    """Rounds to the upper half of a float32, ties to even."""
    bits = f32(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def test_vectors_arrive_value_by_value(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": VECTORS}).warm_up()
    force, torque = (1.1, -2.2, 3.3e-5), (100.7, 0.0, -1 / 3)
    message = wrench(T0, *force)
    set_xyz(message.wrench.torque, torque)
    fusion.send("/wrench", message)
    turn = (0.5, -0.5, 0.5, 0.5)
    fusion.send("/imu", imu(T0, turn, (0.1, 0.2, 0.3), (9.81, -0.4, 1e-3)))
    long = np.array([0.1, 0.2, 0.3, 0.94])  # not quite unit, as drivers send them
    fusion.send("/pose", pose(T0, (1.5, 2.7, -1e6), long))
    message = stamped(TwistStamped, T0)
    set_xyz(message.twist.linear, (0.7, 0.8, 0.9))
    set_xyz(message.twist.angular, (-0.7, -0.8, -0.9))
    fusion.send("/twist", message)
    fusion.send("/odom", odometry(T0, (10.1, 11.1, 12.1), turn, (1, 2, 3), (4, 5, 6)))
    message = stamped(PoseWithCovarianceStamped, T0)
    set_xyz(message.pose.pose.position, (3.5, 4.5, -5.5))
    set_xyzw(message.pose.pose.orientation, turn)
    message.pose.covariance[:] = np.arange(36) + 100.0
    fusion.send("/amcl", message)
    message = stamped(MagneticField, T0)
    set_xyz(message.magnetic_field, (2.1e-5, -4.7e-6, 4.3e-5))
    message.magnetic_field_covariance[:] = np.arange(9) + 100.0
    fusion.send("/compass", message)
    # Joints in another order, with two that the configuration does not name.
    names = ["finger", "ankle", "hip", "tail", "knee"]
    position, velocity = [9, 0.3, 0.1, 9, 0.2], [9, 1.3, 1.1, 9, 1.2]
    fusion.send("/joints", joint_state(T0, names, position, velocity, [9, 2.3, 2.1, 9, 2.2]))

    got = fusion.tick(T0 + 10 * MS)
    expected = {
        "joints": f32([1.1, 1.2, 1.3, 0.1, 0.2, 0.3, 2.1, 2.2, 2.3]),
        "wrench": f32(force + torque),
        "wrench_f16": f32(force + torque).astype(np.float16),
        "wrench_bf16": bf16(force + torque),
        "imu": f32([*turn, 0.1, 0.2, 0.3, 9.81, -0.4, 1e-3]),
        "imu_part": f32([9.81, -0.4, 1e-3, *turn]),
        "twist": f32([0.7, 0.8, 0.9, -0.7, -0.8, -0.9]),
        "odom": f32([10.1, 11.1, 12.1, *turn, 1, 2, 3, 4, 5, 6]),
        "amcl": f32([3.5, 4.5, -5.5, *turn]),
        "compass": f32([2.1e-5, -4.7e-6, 4.3e-5]),
    }
    for name, row in expected.items():
        np.testing.assert_array_equal(got[name].array, row[None], err_msg=name)
        assert got[name].array.dtype == row.dtype, name
    unit = long / np.linalg.norm(long)
    np.testing.assert_allclose(got["pose"].array[0], [1.5, 2.7, -1e6, *unit], rtol=1e-7)
    for name, segment in got.items():
        assert (segment.valid, segment.age_ns) == ([True], [10 * MS]), name
    assert list(got) == list(VECTORS), "segments are in the order of the configuration"
    assert fusion.tensors[fusion.tick_of(T0 + 10 * MS)].header.frame_id == "base_link"

    # The order of the joints may change from one message to the next.
    message = joint_state(T0 + 11 * MS, ["knee", "ankle", "hip"], [2, 3, 1], [5, 6, 4], [8, 9, 7])
    fusion.send("/joints", message)
    got = fusion.tick(T0 + 20 * MS)["joints"]
    np.testing.assert_array_equal(got.array, f32([[4, 5, 6, 1, 2, 3, 7, 8, 9]]))


def test_a_map_is_cropped_around_the_robot():
    spec = {
        "type": "nav_msgs/msg/OccupancyGrid",
        "occupancy": {"size_m": [2, 1.5], "resolution_m": 0.5, "occupied_min": 90},
    }
    fusion = InProcess({"streams": streams(map=spec)})
    # The map is in the base frame, so that no transform is needed. Its corner is a cell to the right of the robot.
    message = stamped(OccupancyGrid, T0)
    message.header.frame_id = "base_link"
    message.info.resolution = 0.5
    message.info.width, message.info.height = 2, 2
    message.info.origin.position.y = -0.25
    message.data = [0, 100, -1, 50]
    fusion.send("/map", message)
    got = fusion.tick(T0 + 10 * MS)["map"]
    expected = [[[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0, 1], [0.5, 0.5, 0.5, 0.5]]]
    np.testing.assert_array_equal(got.array, f32([expected]))
    message.data = [0, 100, -1]
    fusion.check_drops("/map", [(message, "malformed")])


@pytest.mark.parametrize("name", ["valid", "target_ns", "age_ns", "count", "inputs_valid"])
def test_the_tests_own_reader_notices_a_wrong_message(name):
    """The tests trust the decoder above, so it must notice a wrong message."""
    fusion = InProcess({"streams": {"twist": VECTORS["twist"]}})
    fusion.tick(T0)
    message = fusion.message
    setattr(message.segments[0], name, [])
    with pytest.raises(AssertionError):
        segments(message)
