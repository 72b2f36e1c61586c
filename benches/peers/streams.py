"""Encodes messages and resamples rows with NumPy and OpenCV, for `rclpy_node.py`.

NumPy or OpenCV does all work per point and per pixel. Python code runs only per message and per
tick. If rows are not interpolated, they are converted to the output type once, on arrival.
"""

from bisect import bisect_right
from collections import deque

import numpy as np

try:
    import cv2

    cv2.setNumThreads(1)  # the images are small, so threads cost more time than they save
except ImportError:
    cv2 = None
    from PIL import Image as PillowImage

NO_AGE = np.iinfo(np.int64).max
OUTPUT_TYPES = {"f32": np.dtype("<f4"), "f16": np.dtype("<f2"), "bf16": np.dtype("<u2")}
DLPACK = {"f32": (2, 32), "f16": (2, 16), "bf16": (4, 16)}


def to_output(values, dtype):
    """Converts float32 to the elements of a segment, rounded to nearest even."""
    if dtype != "bf16":
        return values.astype(OUTPUT_TYPES[dtype], copy=False)
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


class Stream:
    """Buffers (stamp, row) and resamples them. Subclasses make rows from messages."""

    shape = ()
    angular = None  # mask of elements that are angles
    quaternion = None  # slice of elements that are a rotation

    def __init__(self, spec):
        if len(spec.inputs) != 1:
            raise ValueError(f"{spec.name}: the peer node takes one input per stream")
        self.spec = spec
        self.input = spec.inputs[0]
        self.stamps = deque(maxlen=spec.ring_rows)
        self.rows = deque(maxlen=spec.ring_rows)
        self.received = self.dropped = self.steps_served = self.steps_valid = 0
        self.interpolates = spec.strategy in ("linear", "slerp")
        self.offsets_ns = (np.arange(spec.steps) - (spec.steps - 1)) * spec.step_ns - spec.lag_ns
        self.target_ns = np.zeros(spec.steps, dtype=np.int64)
        self.age_ns = np.full(spec.steps, NO_AGE)
        self.valid = np.zeros(spec.steps, dtype=bool)
        self.count = np.zeros(spec.steps, dtype=np.uint32)

    def decode(self, msg):
        """A row of float32 values, or None if the message cannot be used."""
        raise NotImplementedError

    def push(self, msg, now_ns, lock):
        """Callback of the subscription: makes a row and inserts it by its stamp.

        The row is encoded outside the lock, so that a tick on another thread does not wait.
        """
        self.received += 1
        stamp = msg.header.stamp
        stamp_ns = stamp.sec * 1_000_000_000 + stamp.nanosec
        if self.input.timeline == "receive":
            stamp_ns = now_ns
        row = self.decode(msg) if stamp_ns else None
        if row is None:
            self.dropped += 1
            return
        stamp_ns += self.input.stamp_offset_ns
        if not self.interpolates:
            row = to_output(row, self.spec.dtype)
        with lock:
            if not self.stamps or stamp_ns > self.stamps[-1]:
                self.stamps.append(stamp_ns)
                self.rows.append(row)
            else:
                self._insert(stamp_ns, row)

    def _insert(self, stamp_ns, row):
        at = bisect_right(self.stamps, stamp_ns)
        if at and self.stamps[at - 1] == stamp_ns:
            self.rows[at - 1] = row
        elif len(self.stamps) < self.stamps.maxlen:
            self.stamps.insert(at, stamp_ns)
            self.rows.insert(at, row)
        elif at:
            self.stamps.popleft()
            self.rows.popleft()
            self.stamps.insert(at - 1, stamp_ns)
            self.rows.insert(at - 1, row)
        else:
            self.dropped += 1

    def fuse(self, tick_ns, out):
        """Writes every step's value to `out`, and keeps what the message says of it."""
        self.target_ns = tick_ns + self.offsets_ns
        self.count[:] = self.shape[0]
        for step, target in enumerate(self.target_ns.tolist()):
            value, self.valid[step], self.age_ns[step] = self._align(target)
            out[step] = 0 if value is None else value
        self.steps_served += len(self.valid)
        self.steps_valid += int(np.count_nonzero(self.valid))

    def _align(self, target):
        """(value or None, valid, age), by the rule of crates/ops/src/align.rs."""
        spec, stamps = self.spec, self.stamps
        after = bisect_right(stamps, target)
        if after == 0:
            return None, False, NO_AGE
        row, age = after - 1, target - stamps[after - 1]
        if self.interpolates and after < len(stamps) and age:
            gap = stamps[after] - stamps[row]
            if gap <= spec.max_gap_ns:
                value = self._between(self.rows[row], self.rows[after], np.float32(age / gap))
                return to_output(value, spec.dtype), True, target - stamps[after]
            return self._filled(row), False, target - stamps[after]
        if spec.strategy == "nearest" and after < len(stamps) and stamps[after] - target < age:
            row, age = after, target - stamps[after]
        if abs(age) <= spec.max_age_ns:
            return self._stored(row), True, age
        return self._filled(after - 1), False, age

    def _stored(self, row):
        value = self.rows[row]
        return to_output(value, self.spec.dtype) if self.interpolates else value

    def _filled(self, row):
        return self._stored(row) if self.spec.fill == "last" else None

    def _between(self, a, b, weight):
        delta = b - a
        if self.angular is not None:
            turn = np.float32(2 * np.pi)
            delta = np.where(self.angular, delta - turn * np.round(delta / turn), delta)
        value = a + weight * delta
        if self.quaternion is not None:
            value[self.quaternion] = slerp(a[self.quaternion], b[self.quaternion], weight)
        return value


def slerp(a, b, weight):
    """Interpolates between two unit quaternions, on the shorter arc."""
    cosine = float(a @ b)
    if cosine < 0:
        b, cosine = -b, -cosine
    if cosine > 0.9995:  # the arc is almost straight, and its sine is too small to divide by
        value = a + weight * (b - a)
    else:
        angle = np.arccos(cosine)
        value = (np.sin((1 - weight) * angle) * a + np.sin(weight * angle) * b) / np.sin(angle)
    return value / np.linalg.norm(value)


class VectorStream(Stream):
    def __init__(self, spec):
        if len(spec.encoder["groups"]) != 1:
            raise ValueError(f"{spec.name}: the peer node takes all joints from one message")
        self.joints, self.fields = spec.joints, spec.fields
        self._names, self._index = None, None
        lanes = [channel["lane"] for channel in spec.encoder["channels"]]
        self.shape = (len(lanes),)
        if "quaternion" in lanes and spec.strategy == "slerp":
            start = lanes.index("quaternion")
            self.quaternion = slice(start, start + 4)
        if "angular" in lanes:
            self.angular = np.array([lane == "angular" for lane in lanes])
        super().__init__(spec)

    def decode(self, msg):
        if self.joints:
            return self._joints(msg)
        values = []
        for part in self._parts(msg):
            values += (part.x, part.y, part.z)
            if hasattr(part, "w"):
                values.append(part.w)
        row = np.array(values, dtype=np.float32)
        return row if np.isfinite(row).all() else None

    def _joints(self, msg):
        if msg.name != self._names:  # the order rarely changes: look up names only then
            place = {name: at for at, name in enumerate(msg.name)}
            if not all(joint in place for joint in self.joints):
                return None
            self._names = list(msg.name)
            self._index = np.array([place[joint] for joint in self.joints])
        columns = [np.frombuffer(getattr(msg, field)) for field in self.fields]
        if any(len(column) != len(self._names) for column in columns):
            return None
        row = np.concatenate([column[self._index] for column in columns]).astype(np.float32)
        return row if np.isfinite(row).all() else None

    def _parts(self, msg):
        homes = {
            "Imu": lambda: msg,
            "WrenchStamped": lambda: msg.wrench,
            "PoseStamped": lambda: msg.pose,
            "TwistStamped": lambda: msg.twist,
        }
        for field in self.fields:
            if self.input.message == "Odometry":
                home = msg.pose.pose if field in ("position", "orientation") else msg.twist.twist
            else:
                home = homes[self.input.message]()
            yield getattr(home, field)


class ImageStream(Stream):
    CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}

    def __init__(self, spec):
        image = spec.encoder
        (resize,) = image["resizes"]
        self.width, self.height = resize["width"], resize["height"]
        self.fit, self.color = resize["fit"], image["color"]
        if self.color == "mono" or image["layout"] != "chw" or image["crop"]:
            raise ValueError("the peer node makes [3, height, width] of whole images only")
        if self.fit not in ("stretch", "pad_center", "crop_center"):
            raise ValueError(f"the peer node has no fit {self.fit}")
        scale = 1 / (255 * np.array(image["std"], dtype=np.float64))
        shift = np.array(image["mean"]) / np.array(image["std"])
        self.scale = scale.astype(np.float32)[:, None, None]
        self.shift = shift.astype(np.float32)[:, None, None]
        self.pad_value = image["pad_value"]
        self.shape = (3, self.height, self.width)
        super().__init__(spec)

    def decode(self, msg):
        channels = self.CHANNELS.get(msg.encoding)
        if channels is None or len(msg.data) < msg.step * msg.height:
            return None
        pixels = np.frombuffer(msg.data, dtype=np.uint8, count=msg.step * msg.height)
        pixels = pixels.reshape(msg.height, msg.step)[:, : msg.width * channels]
        pixels = pixels.reshape(msg.height, msg.width, channels)
        pixels = self._resize(np.repeat(pixels, 3, axis=2) if channels == 1 else pixels[..., :3])
        if msg.encoding.startswith("bgr") != (self.color == "bgr") and channels != 1:
            pixels = pixels[..., ::-1]
        row = pixels.transpose(2, 0, 1).astype(np.float32)
        row *= self.scale
        row -= self.shift
        return row

    def _resize(self, pixels):
        """Resizes to the row's size: padded, cropped or stretched, with antialiasing."""
        height, width = pixels.shape[:2]
        if self.fit == "crop_center":
            scale = max(self.width / width, self.height / height)
            w, h = round(self.width / scale), round(self.height / scale)
            left, top = (width - w) // 2, (height - h) // 2
            pixels = pixels[top : top + h, left : left + w]
        if self.fit != "pad_center":
            return _scaled(pixels, self.width, self.height)
        scale = min(self.width / width, self.height / height)
        w, h = round(width * scale), round(height * scale)
        padded = np.full((self.height, self.width, 3), self.pad_value, dtype=np.uint8)
        left, top = (self.width - w) // 2, (self.height - h) // 2
        padded[top : top + h, left : left + w] = _scaled(pixels, w, h)
        return padded


def _scaled(pixels, width, height):
    if cv2 is not None:
        # INTER_AREA is OpenCV's antialiased reduction. INTER_LINEAR reads only 2x2 pixels.
        return cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    image = PillowImage.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((width, height), PillowImage.Resampling.BILINEAR))


class VoxelStream(Stream):
    TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}

    def __init__(self, spec):
        voxels = spec.encoder
        self.origin = np.array(voxels["origin_m"], dtype=np.float32)
        self.size = np.float32(voxels["size_m"])
        self.grid = np.array(voxels["shape"])
        self.channels = [(c["reduce"], c.get("field")) for c in voxels["channels"]]
        t_base_lidar = np.array(spec.inputs[0].t_base_sensor, dtype=np.float32)
        self.rotation, self.translation = t_base_lidar[:, :3], t_base_lidar[:, 3:]
        x, y, z = voxels["shape"]
        self.shape = (len(self.channels), z, y, x)
        super().__init__(spec)

    def decode(self, msg):
        order = ">" if msg.is_bigendian else "<"
        fields = {f.name: (order + self.TYPES[f.datatype], f.offset) for f in msg.fields}
        wanted = ["x", "y", "z"] + [f for _, f in self.channels if f and f not in "xyz"]
        if any(name not in fields for name in wanted):
            return None
        count = msg.width * msg.height
        if msg.row_step != msg.width * msg.point_step or len(msg.data) < count * msg.point_step:
            return None
        types = {name: fields[name] for name in dict.fromkeys(wanted)}
        layout = np.dtype(
            {
                "names": list(types),
                "formats": [kind for kind, _ in types.values()],
                "offsets": [offset for _, offset in types.values()],
                "itemsize": msg.point_step,
            }
        )
        return self._voxels(np.frombuffer(msg.data, dtype=layout, count=count))

    def _voxels(self, points):
        xyz = np.stack([points[axis] for axis in "xyz"]).astype(np.float32, copy=False)
        xyz = self.rotation @ xyz + self.translation
        with np.errstate(invalid="ignore"):  # the comparison excludes NaN points
            cell = np.floor((xyz - self.origin[:, None]) / self.size)
            inside = ((cell >= 0) & (cell < self.grid[:, None])).all(axis=0)
        cell = cell[:, inside].astype(np.int32)
        nx, ny, nz = self.grid.tolist()
        flat = (cell[2] * ny + cell[1]) * nx + cell[0]
        counts = np.bincount(flat, minlength=nx * ny * nz)
        row = np.empty((len(self.channels), nx * ny * nz), dtype=np.float32)
        for channel, (reduce, field) in enumerate(self.channels):
            row[channel] = self._reduce(reduce, field, points, xyz, inside, flat, counts)
        return row.reshape(self.shape)

    def _reduce(self, reduce, field, points, xyz, inside, flat, counts):
        if reduce == "count":
            return counts
        if reduce == "occupancy":
            return counts > 0
        values = xyz["xyz".index(field)] if field in ("x", "y", "z") else points[field]
        values = values[inside].astype(np.float32, copy=False)
        if reduce == "mean":
            sums = np.bincount(flat, weights=values, minlength=len(counts))
            return sums / np.maximum(counts, 1)
        greatest = np.full(len(counts), -np.inf, dtype=np.float32)
        np.maximum.at(greatest, flat, values)
        return np.where(counts > 0, greatest, 0)


KINDS = {"vector": VectorStream, "image": ImageStream, "voxels": VoxelStream}
