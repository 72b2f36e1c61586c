"""What the node served at a tick, from nothing but the rows of `robocache replay --format rows`.

This is the rule of docs/stores.md, in NumPy: a tick sees the rows with `received_ns <= tick < left_ns`.
It has no quaternions, no angles on the short arc and no held elements (`lanes`), and no operators that act after interpolation.
"""

import numpy as np

NO_AGE = np.iinfo(np.int64).max
STRATEGY, HELD, NOTHING = 0, 1, 2


class Ring:
    """The rows of one ring in one episode."""

    def __init__(self, group, episode):
        begin, end = group["episode_begins"][episode], group["episode_ends"][episode]
        self.arrays = {
            name: array[int(begin) : int(end)]
            for name, array in group.arrays()
            if not name.startswith("episode_")
        }
        self.about = dict(group["rows"].attrs["ring"])

    def at(self, tick, epoch):
        """The numbers of the rows that a tick of an epoch sees, by their stamps."""
        a = self.arrays
        seen = (a["epoch"] == epoch) & (a["received_ns"] <= tick) & (tick < a["left_ns"])
        rows = np.flatnonzero(seen)
        assert (np.diff(a["stamp_ns"][rows]) > 0).all()
        return rows

    def find(self, rows, target):
        """(rows, weight), validity and age of the value at a target; rows are numbers."""
        a, rule = self.arrays, self.about["segment"]
        stamps = a["stamp_ns"][rows]
        after = int(np.searchsorted(stamps, target, side="right"))
        count, nothing = len(rows), False
        if "until_next" in a and after and stamps[after - 1] < target:
            until = a["until_next"][rows[after - 1]]
            count = count if until == STRATEGY else after
            nothing = until == NOTHING
        if not after:
            return (None, None), False, NO_AGE
        held = after - 1
        age = target - int(stamps[held])
        strategy = rule["strategy"]
        if after == count or age == 0 or strategy == "hold":
            value = (rows[held], None)
        elif strategy == "nearest":
            ahead = int(stamps[after]) - target
            value = (rows[after if ahead < age else held], None)
            age = -ahead if ahead < age else age
        else:
            gap = int(stamps[after]) - int(stamps[held])
            value = ((rows[held], rows[after]), np.float32(np.float64(age) / np.float64(gap)))
            valid = gap <= rule["max_gap_ns"] and not nothing
            return value, valid, target - int(stamps[after])
        valid = abs(age) <= rule["max_age_ns"] and not nothing
        if "until_ns" in a and valid:
            until, needed = a["until_ns"][value[0]], self.about["valid_when"]
            has = until != np.iinfo(np.int64).min
            if needed in ("all", "any"):
                valid = bool(has.all() if needed == "all" else has.any())
            else:
                valid = bool(has[needed].all())
            # A cloud that is too old cannot be taken out of the row.
            valid &= bool((until[has] >= target).all())
        return value, valid, age

    def fill(self, rows, target, age):
        """The same for a step that is invalid."""
        after = int(np.searchsorted(self.arrays["stamp_ns"][rows], target, side="right"))
        if self.about["segment"]["fill"] == "last" and after:
            return (rows[after - 1], None), target - int(self.arrays["stamp_ns"][rows[after - 1]])
        return (None, None), age

    def value(self, found, name="rows"):
        at, weight = found
        array = self.arrays[name]
        if at is None:
            return np.zeros(array.shape[1:], array.dtype)
        if weight is None:
            return array[at]
        a, b = (array[row] for row in at)
        return a + weight * (b - a)


def step(rings, tick, epoch, target):
    """Values per ring, validity and age of a step of a stream."""
    seen = [ring.at(tick, epoch) for ring in rings]
    found = [ring.find(rows, target) for ring, rows in zip(rings, seen, strict=True)]
    valid = all(each[1] for each in found)
    values, ages = [each[0] for each in found], [each[2] for each in found]
    if not valid:
        filled = [
            ring.fill(rows, target, age) for ring, rows, age in zip(rings, seen, ages, strict=True)
        ]
        values, ages = ([each[at] for each in filled] for at in (0, 1))
    return values, valid, max(ages)


def segment(rings, tick, epoch):
    """Values `[steps, row...]`, validity and ages of the segment of a stream."""
    about = rings[0].about["segment"]
    steps = [step(rings, tick, epoch, tick + offset) for offset in about["target_offsets_ns"]]
    rows = []
    for values, _, _ in steps:
        if len(rings) == 1:
            rows.append(rings[0].value(values[0]))
            continue
        row = np.zeros(len(about["channels"]), rings[0].arrays["rows"].dtype)
        for ring, found in zip(rings, values, strict=True):
            places = [about["channels"].index(name) for name in ring.about["channels"]]
            row[places] = ring.value(found)
        rows.append(row)
    valid, ages = ([each[at] for each in steps] for at in (1, 2))
    return np.array(rows), valid, ages
