"""Writes voxel_golden.json and voxel_map_golden.json beside this file: small clouds voxelized by numpy.

    pip install numpy==2.2.* && python3 make_voxel_golden.py

Every float in the first file, and every value of a voxel in the second one, is the bits of a float32, as
an unsigned integer.
"""

import json
import pathlib

import numpy as np

f32 = np.float32
rng = np.random.default_rng(20)
origin = np.array([-2.0, -1.5, -0.5], f32)
size = f32(0.3)
shape = (7, 6, 4)
c, s = f32(np.cos(0.5)), f32(np.sin(0.5))
t = np.array([[c, -s, 0, 0.25], [s, c, 0, -0.5], [0, 0, 1, 0.125]], f32)

points = np.empty((300, 4), f32)
points[:, :3] = rng.uniform(-1.5, 1.5, (300, 3))
points[:, 3] = rng.uniform(-1000, 1000, 300)
points[200:260, :3] = points[0, :3]  # a crowded voxel
points[7, 1], points[9, 3] = np.nan, np.inf

finite = np.isfinite(points).all(axis=1)
kept = points[finite]
x, y, z, i = kept.T
base = np.stack([((r[0] * x + r[1] * y) + r[2] * z) + r[3] for r in t], axis=1)
index = np.floor((base - origin) / size)
inside = ((index >= 0) & (index < shape)).all(axis=1)
ix, iy, iz = index[inside].astype(np.int64).T
voxel = (iz * shape[1] + iy) * shape[0] + ix
fields = {"x": base[inside, 0], "z": base[inside, 2], "i": i[inside]}


def mean(values):
    sums = np.zeros(np.prod(shape), np.int64)
    np.add.at(sums, voxel, np.rint(values.astype(np.float64) * 2**20).astype(np.int64))
    with np.errstate(invalid="ignore"):
        return (sums.astype(np.float64) / (count * 2.0**20)).astype(f32)


def greatest(values):
    out = np.full(np.prod(shape), -np.inf, f32)
    np.maximum.at(out, voxel, values)
    return out


def bits(values):
    return np.ascontiguousarray(values, f32).view(np.uint32).ravel().tolist()


count = np.bincount(voxel, minlength=np.prod(shape)).astype(np.float64)
columns = [
    count,
    mean(fields["i"]),
    greatest(fields["i"]),
    mean(fields["x"]),
    greatest(fields["z"]),
]
occupied = np.flatnonzero(count)
rows = [[int(v), *(bits(column[v])[0] for column in columns)] for v in occupied]
golden = {
    "origin": bits(origin),
    "size": bits(size)[0],
    "shape": shape,
    "transform": bits(t),
    "points": bits(points),
    "outside": int((~inside).sum()),
    "non_finite": int((~finite).sum()),
    "voxels": rows,
}
path = pathlib.Path(__file__).with_name("voxel_golden.json")
path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def map_golden():
    """Float64 coordinates of a map: a grid far from its origin, filters, and the other reductions."""
    rng = np.random.default_rng(21)
    origin, size, shape = np.array([448_262.3, 5_411_932.7, 120.1]), f32(0.45), (6, 6, 5)
    c, s = np.cos(0.3), np.sin(0.3)
    t = np.array([[c, -s, 0, 448_263.4], [s, c, 0, 5_411_933.1], [0, 0, 1, 121.0]])
    points = np.round(rng.uniform(-1.4, 1.4, (500, 4)), 4)
    points[:, 3] *= 1000
    points[460:, :3] = points[0, :3] * 0.3  # a crowded voxel
    max_range, min_points = f32(1.75), 2

    x, y, z, i = points.T
    squares = (x * x + y * y) + z * z
    near = squares <= np.float64(max_range) * np.float64(max_range)
    base = np.stack([((r[0] * x + r[1] * y) + r[2] * z) + r[3] for r in t], axis=1)
    d = (base - origin).astype(f32)
    steps = np.floor(d / size)
    inside = near & ((steps >= 0) & (steps < shape)).all(axis=1)
    offsets = d - (steps + f32(0.5)) * size
    assert offsets.dtype == f32
    index = steps[inside].astype(np.int64)
    voxel = (index[:, 2] * shape[1] + index[:, 1]) * shape[0] + index[:, 0]
    columns = {
        "i": i.astype(f32)[inside],
        "x": base[inside, 0].astype(f32),
        "range": np.sqrt(squares).astype(f32)[inside],
        "ox": offsets[inside, 0],
        "oz": offsets[inside, 2],
    }
    kept, counts = np.unique(voxel, return_counts=True)
    few = counts[counts < min_points].sum()
    kept = kept[counts >= min_points]

    def value(word, at):
        values = columns[word.split(":")[1]][voxel == at] if ":" in word else None
        match word.split(":")[0]:
            case "count":
                return f32((voxel == at).sum())
            case "min":
                return values.min()
            case "max":
                return values.max()
            case "last":
                return values[-1]
        sums = np.rint(values.astype(np.float64) * 2**20).astype(np.int64).sum()
        total = np.float64(sums) / 2**20
        return f32(total if word.startswith("sum") else np.float64(sums) / (len(values) * 2.0**20))

    channels = ["count", "min:i", "sum:i", "last:i", "mean:ox", "last:oz", "mean:range", "max:x"]
    rows = [[int(at), *(bits(value(word, at))[0] for word in channels)] for at in kept]
    golden = {
        "channels": channels,
        "origin": origin.tolist(),
        "size": float(size),
        "shape": shape,
        "transform": t.ravel().tolist(),
        "max_range": float(max_range),
        "min_points": min_points,
        "points": points.ravel().tolist(),
        "out_of_reach": int((~near).sum()),
        "outside": int((near & ~inside).sum()),
        "too_few": int(few),
        "occupied": len(rows),
        "voxels": rows,
    }
    path = pathlib.Path(__file__).with_name("voxel_map_golden.json")
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


map_golden()
