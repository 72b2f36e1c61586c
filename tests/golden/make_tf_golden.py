"""Makes tf.txt: random trees of transforms, and look-ups in them by scipy.

Lines of a case:

    case NAME
    link fixed|moving PARENT CHILD STAMP_NS  x y z  qx qy qz qw
    ask TARGET SOURCE STAMP_NS  x y z  qx qy qz qw      the transform that takes SOURCE to TARGET
    ask TARGET SOURCE STAMP_NS  none                    there is none
The links are in random order. Needs numpy and scipy.
"""

import sys
from pathlib import Path

import numpy as np
import scipy
from scipy.spatial.transform import Rotation, Slerp

START = 1_700_000_000_000_000_000


def matrix(translation, quaternion):
    out = np.eye(4)
    out[:3, :3] = Rotation.from_quat(quaternion).as_matrix()
    out[:3, 3] = translation
    return out


def make_links(rng, frames):
    """Per child: its parent, and its transforms by stamp; a stamp of None is fixed."""
    links = {}
    for child in range(1, frames):
        # Mostly long chains, sometimes bushes.
        parent = child - 1 if rng.random() < 0.6 else int(rng.integers(0, child))
        fixed = rng.random() < 0.35
        count = 1 if fixed else int(rng.integers(2, 7))
        stamps = START + np.sort(rng.choice(100_000_000, count, replace=False)).astype(object)
        rows = []
        turn = Rotation.random(rng=rng)
        for stamp in stamps:
            match int(rng.integers(0, 4)):
                case 0:
                    turn = Rotation.random(rng=rng)
                case 1:
                    turn = Rotation.from_rotvec(1e-7 * rng.normal(size=3)) * turn
                case _:
                    turn = Rotation.from_rotvec(0.2 * rng.normal(size=3)) * turn
            q = turn.as_quat() * rng.choice([-1.0, 1.0])
            rows.append((int(stamp), rng.normal(scale=5.0, size=3), q))
        links[child] = (parent, fixed, rows)
    return links


def at(link, stamp):
    """The link's matrix at a stamp; None where there is none."""
    _, fixed, rows = link
    if fixed:
        return matrix(*rows[0][1:])
    for row in rows:
        if row[0] == stamp:
            return matrix(*row[1:])
    for before, after in zip(rows, rows[1:]):
        if before[0] < stamp < after[0]:
            weight = float(stamp - before[0]) / float(after[0] - before[0])
            # scipy takes the shorter way, whatever the signs of the quaternions.
            turns = Rotation.from_quat([before[2], after[2]])
            turn = Slerp([0.0, 1.0], turns)(weight).as_quat()
            return matrix(before[1] + weight * (after[1] - before[1]), turn)
    return None


def chain(links, frame):
    frames = [frame]
    while frames[-1] in links:
        frames.append(links[frames[-1]][0])
    return frames


def lookup(links, target, source, stamp):
    ups = [chain(links, source), chain(links, target)]
    meeting = next(frame for frame in ups[0] if frame in ups[1])
    out = []
    for frames in ups:
        total = np.eye(4)
        for child in frames[: frames.index(meeting)]:
            step = at(links[child], stamp)
            if step is None:
                return None
            total = step @ total
        out.append(total)
    return np.linalg.inv(out[1]) @ out[0]


def main():
    rng = np.random.default_rng(11)
    lines = [f"# made by make_tf_golden.py, scipy {scipy.__version__}"]

    def number(values):
        return " ".join(repr(float(value)) for value in values)

    for case in range(24):
        frames = int(rng.integers(2, 12))
        links = make_links(rng, frames)
        lines.append(f"case {case}")
        said = [
            f"link {'fixed' if fixed else 'moving'} f{parent} f{child} {stamp} {number([*t, *q])}"
            for child, (parent, fixed, rows) in links.items()
            for stamp, t, q in rows
        ]
        rng.shuffle(said)
        lines += said
        stamps = [row[0] for _, _, rows in links.values() for row in rows]
        for ask in range(14):
            target, source = (int(frame) for frame in rng.integers(0, frames, 2))
            stamp = START + int(rng.integers(10_000_000, 90_000_000))
            if ask % 4 == 0:
                stamp = int(rng.choice(np.array(stamps, dtype=object)))
            found = lookup(links, target, source, stamp)
            answer = "none"
            if found is not None:
                turn = Rotation.from_matrix(found[:3, :3]).as_quat()
                answer = number([*found[:3, 3], *turn])
            lines.append(f"ask f{target} f{source} {stamp} {answer}")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("tf.txt")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
