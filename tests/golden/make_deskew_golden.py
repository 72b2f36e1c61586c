"""Makes deskew.txt: points seen one after the other from a lidar on a screw motion.

Lines, lengths in metres:

    pose STAMP_NS  x y z  qx qy qz qw       base in odom; the lidar is at MOUNT in the base
    point x y z TIME_NS  ex ey ez  tx ty tz
A point has its coordinates in the frame of the lidar TIME_NS after the reference stamp REFERENCE.
(ex, ey, ez) is where scipy takes it, in the base frame at the reference stamp, with the poses
interpolated at its own time. (tx, ty, tz) is where it truly is. Each is in a voxel of 1 m of its own.
Needs numpy and scipy.
"""

import sys
from pathlib import Path

import numpy as np
import scipy
from scipy.linalg import expm
from scipy.spatial.transform import Rotation, Slerp

REFERENCE = 1_700_000_000_000_000_000
#: Poses every 5 ms, as of an odometry at 200 Hz.
STEP = 5_000_000
#: Of the base: rotation [rad/s], velocity [m/s].
TWIST = np.array([0.2, -0.3, 1.5]), np.array([2.0, 0.4, 0.1])
MOUNT = np.array([0.3, -0.1, 0.5]), Rotation.from_euler("xyz", [3.0, -5.0, 80.0], degrees=True)


def matrix(turn, shift):
    out = np.eye(4)
    out[:3, :3] = turn.as_matrix()
    out[:3, 3] = shift
    return out


def base_in_odom(seconds):
    """The screw motion: the exponential of the twist."""
    (wx, wy, wz), v = TWIST
    generator = np.zeros((4, 4))
    generator[:3, :3] = [[0, -wz, wy], [wz, 0, -wx], [-wy, wx, 0]]
    generator[:3, 3] = v
    start = matrix(Rotation.from_euler("z", 2.0), [50.0, -20.0, 1.0])
    return start @ expm(generator * seconds)


def main():
    rng = np.random.default_rng(5)
    lines = [f"# made by make_deskew_golden.py, scipy {scipy.__version__}"]

    def number(values):
        return " ".join(repr(float(value)) for value in values)

    offsets = np.arange(-4, 27) * STEP
    poses = [base_in_odom(offset / 1e9) for offset in offsets]
    turns = Rotation.from_matrix([pose[:3, :3] for pose in poses])
    shifts = np.array([pose[:3, 3] for pose in poses])
    for offset, turn, shift in zip(offsets, turns, shifts):
        stamp = REFERENCE + int(offset)
        lines.append(f"pose {stamp} {number([*shift, *turn.as_quat()])}")
    slerp = Slerp(offsets.astype(float), turns)
    mount = matrix(MOUNT[1], MOUNT[0])

    def interpolated(time):
        shift = [np.interp(time, offsets, shifts[:, axis]) for axis in range(3)]
        return matrix(slerp(float(time)), shift)

    to_base = np.linalg.inv(interpolated(0))
    cells = rng.choice(20 * 20 * 4, 400, replace=False)
    times = np.sort(rng.integers(0, 100_000_000, len(cells)))
    for cell, time in zip(cells, times):
        corner = np.array([cell % 20 - 10, cell // 20 % 20 - 10, cell // 400])
        truth = corner + rng.uniform(0.2, 0.8, 3)
        world = base_in_odom(0.0) @ [*truth, 1.0]
        seen = np.linalg.inv(base_in_odom(time / 1e9) @ mount) @ world
        seen = seen[:3].astype(np.float32)
        expected = to_base @ interpolated(time) @ mount @ [*seen.astype(float), 1.0]
        lines.append(f"point {number(seen)} {time} {number(expected[:3])} {number(truth)}")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("deskew.txt")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
