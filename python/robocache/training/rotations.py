"""Rotations and poses of arrays of NumPy or torch. A quaternion is `[..., (x, y, z, w)]`, of unit length where it is given out."""

from __future__ import annotations

from typing import Any

#: By order the places (row, column) of six numbers in a rotation matrix: docs/inputs.md says who uses which.
SIX = {
    "rows": ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)),
    "columns": ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)),
    "columns_by_row": ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)),
}
#: Cosine of a pitch below which roll is 0. It is near the root of float32's precision.
_LOCKED = 3e-4


def unit(xp: Any, q: Any) -> Any:
    """A quaternion of unit length; zeros become no rotation."""
    square = (q * q).sum(-1)[..., None]
    none = xp.zeros_like(q)
    none[..., 3] = 1
    length = xp.sqrt(xp.where(square > 0, square, xp.ones_like(square)))
    return xp.where(square > 0, q / length, none)


def conjugate(xp: Any, q: Any) -> Any:
    """The opposite rotation."""
    return xp.stack([-q[..., 0], -q[..., 1], -q[..., 2], q[..., 3]], -1)


def product(xp: Any, a: Any, b: Any) -> Any:
    """First b, then a."""
    ax, ay, az, aw = (a[..., at] for at in range(4))
    bx, by, bz, bw = (b[..., at] for at in range(4))
    parts = [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]
    return xp.stack(parts, -1)


def matrix(q: Any) -> list[list[Any]]:
    """The entries of the rotation matrix, by row and column."""
    x, y, z, w = (q[..., at] for at in range(4))
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]


def turned(xp: Any, q: Any, v: Any) -> Any:
    """A vector `[..., 3]`, turned."""
    return xp.stack([sum(row[at] * v[..., at] for at in range(3)) for row in matrix(q)], -1)


def of_matrix(xp: Any, m: list[list[Any]]) -> Any:
    """The quaternion of a rotation matrix: of four ways to compute it that with the greatest divisor."""
    (a, b, c), (d, e, f), (g, h, i) = m
    ways = [
        (1 + a - e - i, [1 + a - e - i, b + d, c + g, h - f]),
        (1 - a + e - i, [b + d, 1 - a + e - i, f + h, c - g]),
        (1 - a - e + i, [c + g, f + h, 1 - a - e + i, d - b]),
        (1 + a + e + i, [h - f, c - g, d - b, 1 + a + e + i]),
    ]
    best, found = ways[0][0], xp.stack(ways[0][1], -1)
    for divisor, parts in ways[1:]:
        found = xp.where((divisor > best)[..., None], xp.stack(parts, -1), found)
        best = xp.where(divisor > best, divisor, best)
    return unit(xp, found)


def of_rpy(xp: Any, rpy: Any) -> Any:
    """The quaternion of roll, pitch and yaw: about the fixed axes x, y and z, in this order."""
    (cr, cp, cy), (sr, sp, sy) = (
        [f(rpy[..., at] / 2) for at in range(3)] for f in (xp.cos, xp.sin)
    )
    parts = [
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    ]
    return xp.stack(parts, -1)


def to_rpy(xp: Any, q: Any) -> Any:
    """Roll, pitch and yaw of a quaternion."""
    m = matrix(q)
    across = xp.sqrt(m[0][0] * m[0][0] + m[1][0] * m[1][0])
    # At a pitch of 90 degrees, roll and yaw turn about the same axis. Nearby, float32 cannot tell them apart: the yaw has all.
    locked = across < _LOCKED
    roll = xp.where(locked, xp.zeros_like(across), xp.arctan2(m[2][1], m[2][2]))
    yaw = xp.where(locked, xp.arctan2(-m[0][1], m[1][1]), xp.arctan2(m[1][0], m[0][0]))
    return xp.stack([roll, xp.arctan2(-m[2][0], across), yaw], -1)


def to_six(xp: Any, q: Any, order: str) -> Any:
    """Six numbers of the rotation matrix."""
    m = matrix(q)
    return xp.stack([m[row][column] for row, column in SIX[order]], -1)


def of_six(xp: Any, six: Any, order: str) -> Any:
    """The quaternion of six numbers, which need not be of a rotation: the first vector counts, then the second (Zhou et al.,
    CVPR 2019)."""
    at = {place: six[..., n] for n, place in enumerate(SIX[order])}
    if order == "rows":
        first, second = ([at[n, k] for k in range(3)] for n in range(2))
    else:
        first, second = ([at[k, n] for k in range(3)] for n in range(2))
    one = _unit(xp, xp.stack(first, -1))
    two = xp.stack(second, -1)
    two = _unit(xp, two - one * (one * two).sum(-1)[..., None])
    a, b = ([v[..., k] for k in range(3)] for v in (one, two))
    c = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    m = [a, b, c]
    return of_matrix(xp, m if order == "rows" else [list(row) for row in zip(*m, strict=True)])


def _unit(xp: Any, v: Any) -> Any:
    return v / xp.sqrt((v * v).sum(-1)[..., None])
