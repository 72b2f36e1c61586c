"""Guesses what the elements of a vector are, by their names and by values of several episodes.

A guess says no more than the values allow: names such as roll, pitch and yaw are angles in radians only if the values are.
If a vector never moves, nothing is guessed of it. Other numbers that a line between two frames would make wrong are held.
"""

import math
import re
from dataclasses import dataclass

import numpy as np

_ANGLES = (("roll", "pitch", "yaw"), ("rx", "ry", "rz"))
_QUATERNION = ("qx", "qy", "qz", "qw")
_OTHER_ORDER = ("qw", "qx", "qy", "qz")
#: Episodes that are looked at.
_EPISODES = 16
#: How far two frames of an angle [rad] may be apart.
_STEP = 1.5


@dataclass(frozen=True)
class Guess:
    """What elements of a vector are; `why` is a sentence."""

    angular: tuple[str, ...] = ()
    quaternions: tuple[tuple[str, ...], ...] = ()
    held: tuple[str, ...] = ()
    why: str = ""


def some_of(episodes):
    """At most 16 of these episodes, evenly spaced."""
    last = len(episodes) - 1
    places = np.linspace(0, last, min(len(episodes), _EPISODES)).round().astype(int)
    return [episodes[at] for at in places.tolist()]


def guess(name, names, episodes, bounds=None):
    """The guess for a vector; None if nothing is special.

    Args:
        name: of the vector: a field or a feature.
        names: of its elements.
        episodes: a list of the values of some episodes, each [frames, elements] of floats.
        bounds: the least and the greatest value of each element in the whole dataset, [2, elements]; None if unknown. They
            only refute.
    """
    parts = [finite for each in episodes if len(finite := each[np.isfinite(each).all(axis=1)])]
    if not parts:
        return None
    values = np.concatenate(parts)
    # A step is one within an episode.
    steps = np.concatenate([np.abs(np.diff(part, axis=0)) for part in parts])
    seen = np.array([values.min(axis=0), values.max(axis=0)])
    bounds = seen if bounds is None else np.where(np.isfinite(bounds), bounds, seen)
    moves, is_still = seen[0] != seen[1], (bounds[0] == bounds[1]) & (seen[0] == seen[1])
    words = [_words(each) for each in names]
    if len(names) == 4 and "quat" in name.lower() and not _fours(words, _QUATERNION):
        words = [(*name.lower().split("/"), each) for each in _order(words)]
    angular, held, quaternions, told = [], [], [], []
    for triple in _ANGLES:
        for places in _triples(words, triple):
            own = [names[at] for at in places]
            if is_still[places].all():
                continue
            of_all = np.concatenate([values, bounds])[:, places]
            if moves[places].any() and _are_angles(of_all, steps[:, places]):
                angular += own
                told.append(f"{', '.join(own)} are angles [rad]")
            else:
                held += own
                told.append(f"{', '.join(own)} are held, because their values are no angles [rad]")
    for order in (_QUATERNION, _OTHER_ORDER):
        for first in _fours(words, order):
            own, places = names[first : first + 4], slice(first, first + 4)
            is_zero = ~values[:, places].any(axis=1)
            turns = values[~is_zero, places]
            if is_still[places].all() or not _are_unit(turns, bounds[:, places]):
                continue
            if order == _QUATERNION and is_zero.any():
                held += own
                told.append(
                    f"{', '.join(own)} are held, because {is_zero.sum()} of {len(values)} rows that were looked at are zeros, "
                    f"and the others a quaternion: with quaternions: [[{', '.join(own)}]] in place of held and strategy: slerp, "
                    "rows of zeros are dropped and counted"
                )
            elif order == _QUATERNION:
                quaternions.append(tuple(own))
                told.append(f"{', '.join(own)} are x, y, z, w of a quaternion")
            else:
                held += own
                told.append(f"{', '.join(own)} are held: a quaternion that begins with w")
    for at, each in enumerate(names):
        is_gripper = "gripper" in f"{name} {each}".lower()
        if each not in held and _is_binary(values[:, at], bounds[:, at], is_gripper):
            held.append(each)
            told.append(f"{each} is held, because it has two values")
    if not told:
        return None
    return Guess(tuple(angular), tuple(quaternions), tuple(held), "; ".join(told))


def _words(name):
    """The words of a name, without an ending that says what is measured."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    return tuple(words[:-1] if words[-1:] in (["pos"], ["position"]) else words) or ("",)


def _order(words):
    """The last words of the elements of a quaternion: x becomes qx. Without names the order is x, y, z, w."""
    last = [each[-1] for each in words]
    return (
        [f"q{each}" if each in "xyzw" else each for each in last]
        if last != list("0123")
        else _QUATERNION
    )


def _triples(words, triple):
    """The places of three elements whose names differ in the last word alone."""
    found = {}
    for at, each in enumerate(words):
        if each[-1] in triple:
            found.setdefault(each[:-1], {})[each[-1]] = at
    return [[of[word] for word in triple] for of in found.values() if len(of) == len(triple)]


def _fours(words, order):
    """The first places of four elements that follow each other in this order."""
    places = range(len(words) - 3)
    return [at for at in places if tuple(each[-1] for each in words[at : at + 4]) == order]


def _are_angles(values, steps):
    """Whether values are in one turn, and go from frame to frame as angles do."""
    low, high = values.min(), values.max()
    in_turn = high <= math.pi + 0.01 and low >= -math.pi - 0.01
    in_turn = in_turn or (low >= 0 and high <= math.tau + 0.01)
    return bool(in_turn and ((steps < _STEP) | (steps > math.tau - _STEP)).all())


def _is_binary(values, bounds, is_gripper):
    """Whether values are two: of a gripper any two, of others two of -1, 0 and 1 in some frames."""
    found = np.unique(values)
    if len(found) != 2 or not np.isin(bounds.astype(found.dtype), found).all():
        return False
    return bool(is_gripper or (len(values) >= 8 and np.isin(found, (-1, 0, 1)).all()))


def _are_unit(values, bounds):
    """True if there are rows, and all are of length 1."""
    norms = (values.astype(np.float64) ** 2).sum(axis=1)
    are_unit = len(norms) and (np.abs(norms - 1) < 0.01).all()
    return bool(are_unit and (np.abs(bounds) < 1.01).all())
