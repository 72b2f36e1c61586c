"""The rules of resampling in NumPy, target by target: what the operations are compared with."""

import numpy as np

NO_AGE = 2**63 - 1


def row_at(stamps, target, strategy, max_age_ns, max_gap_ns, fill):
    """The rows that give a value: (first, second or None, weight), whether it is valid, and its age."""
    after = int(np.searchsorted(stamps, target, side="right"))
    if after == 0 and fill == "first" and len(stamps):
        return (0, None, 0.0), False, int(target) - int(stamps[0])
    if after == 0:
        return None, False, NO_AGE
    held = after - 1
    held_age = int(target) - int(stamps[held])
    pair, age = (held, None, 0.0), held_age
    valid = held_age <= max_age_ns
    if after < len(stamps) and held_age != 0:
        ahead = int(stamps[after]) - int(target)
        if strategy == "nearest" and ahead < held_age:
            pair, age, valid = (after, None, 0.0), -ahead, ahead <= max_age_ns
        elif strategy in ("linear", "slerp"):
            gap = int(stamps[after]) - int(stamps[held])
            pair, age = (held, after, np.float32(held_age / gap)), -ahead
            valid = gap <= max_gap_ns
    if valid:
        return pair, True, age
    return ((held, None, 0.0), False, held_age) if fill != "zero" else (None, False, age)


def angular(a, b, weight):
    """Angles in float32 along the shorter arc; within half a turn they stay there."""
    tau, pi = np.float32(2 * np.pi), np.float32(np.pi)
    difference = b - a
    turns = np.rint(difference / tau)
    angle = a + weight * (difference - turns * tau)
    if abs(a) <= pi and abs(b) <= pi:
        if angle > pi:
            return angle - tau
        if angle < -pi:
            return angle + tau
    return angle


def between(a, b, weight, lanes):
    """The value between two rows of float32; lanes are linear, angular or held."""
    out = a + weight * (b - a)
    for at, lane in enumerate(lanes or ()):
        if lane == "angular":
            out[at] = angular(a[at], b[at], weight)
        elif lane == "held":
            out[at] = a[at]
    return out


def round_to(values, dtype):
    """float32 in the type of the output, rounded once; bfloat16 as the bits in uint16."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_float32(rows):
    """Rows in float32; uint16 are the bits of bfloat16."""
    if rows.dtype == np.uint16:
        return (rows.astype(np.uint32) << 16).view(np.float32)
    return rows.astype(np.float32)


def resample(rows, stamps, targets, strategy, max_age_ns, max_gap_ns, fill, lanes, dtype):
    """One episode: rows [S, D], stamps [S], targets [T]."""
    wide = to_float32(rows)
    values = np.zeros((len(targets), rows.shape[1]), np.float32)
    valid = np.zeros(len(targets), bool)
    age_ns = np.zeros(len(targets), np.int64)
    for at, target in enumerate(targets):
        pair, valid[at], age_ns[at] = row_at(stamps, target, strategy, max_age_ns, max_gap_ns, fill)
        if pair is not None and pair[1] is None:
            values[at] = wide[pair[0]]
        elif pair is not None:
            values[at] = between(wide[pair[0]], wide[pair[1]], pair[2], lanes)
    return round_to(values, dtype), valid, age_ns
