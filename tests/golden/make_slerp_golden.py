"""Makes slerp.txt: scipy's slerp at random pairs, weights and special cases.

Each line: quaternion a (x y z w), quaternion b, weight, the result. Needs numpy and scipy.
The result's sign is scipy's with b negated where the two lie in opposite half-spaces, which is
what makes the interpolation take the shorter way round.
"""

import sys
from pathlib import Path

import numpy as np
import scipy
from scipy.spatial.transform import Rotation, Slerp


def unit(q):
    """The quaternion as float32 holds it, which is what the code under test is given."""
    return (q / np.linalg.norm(q)).astype(np.float32).astype(np.float64)


def slerp(a, b, weight):
    result = Slerp([0.0, 1.0], Rotation.from_quat([a, b]))(weight).as_quat()
    # A rotation has two quaternions; the interpolation starts from a's own sign.
    return result if np.dot(result, a) >= 0 else -result


def main():
    rng = np.random.default_rng(7)
    lines = [f"# made by make_slerp_golden.py, scipy {scipy.__version__}"]
    for case in range(300):
        a = unit(rng.normal(size=4))
        match case % 5:
            case 0:
                b = unit(rng.normal(size=4))
            case 1:
                b = unit(a + 1e-4 * rng.normal(size=4))  # almost the same
            case 2:
                b = unit(-a + 1e-2 * rng.normal(size=4))  # almost the same, opposite sign
            case 3:
                b = unit(np.array([a[1], -a[0], a[3], -a[2]]) + 0.05 * a)  # near a half turn
            case _:
                b = a.copy()
        weight = float(np.float32(rng.uniform(0.001, 0.999)))
        numbers = [*a, *b, weight, *slerp(a, b, weight)]
        lines.append(" ".join(repr(float(n)) for n in numbers))
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("slerp.txt")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
