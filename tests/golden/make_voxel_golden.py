"""Writes voxel_golden.json beside this file: a small cloud voxelized by numpy.

    pip install numpy==2.2.* && python3 make_voxel_golden.py

Every float in the file is the bits of a float32, as an unsigned integer.
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
