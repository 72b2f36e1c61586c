"""Makes tests/golden/operators.txt, with scipy and NumPy as the references.

    pip install numpy scipy && python3 tests/golden/make_operators_golden.py

A line is `rotation`, a quaternion (x, y, z, w) and its matrix, row-major; or `unwrap`, the step that
stays, angles, and the angles unwrapped.
"""

from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

FILE = Path(__file__).with_name("operators.txt")


def unwrapped(angles, anchor):
    """numpy.unwrap, forward and backward from the anchor."""
    after = np.unwrap(angles[anchor:])
    before = np.unwrap(angles[anchor::-1])[::-1]
    return np.concatenate([before[:-1], after])


def lines():
    random = np.random.default_rng(12)
    for rotation in Rotation.random(200, random_state=3):
        yield "rotation", [*rotation.as_quat(), *rotation.as_matrix().ravel()]
    for _ in range(200):
        steps = int(random.integers(1, 12))
        anchor = int(random.integers(steps))
        turns = random.integers(-2, 3, steps) * (2 * np.pi)
        angles = random.uniform(-np.pi, np.pi, steps) + turns
        yield "unwrap", [anchor, *angles, *unwrapped(angles, anchor)]


def main():
    with FILE.open("w") as file:
        for name, numbers in lines():
            file.write(" ".join([name, *(repr(float(number)) for number in numbers)]) + "\n")


if __name__ == "__main__":
    main()
