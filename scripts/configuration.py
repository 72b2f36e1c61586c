"""A configuration file of robocache's, for Python tools that run beside the node.

`robocache check` is what validates a configuration. This reads one that has been validated and
fills in the same defaults; it is shared by the demo, the benchmark and the benchmark's peer node.
"""

from dataclasses import dataclass, field

import yaml

NANOS_PER_MS = 1_000_000

#: The fields of each vector message, in the order in which a message carries them.
VECTOR_FIELDS = {
    "JointState": ["position", "velocity", "effort"],
    "Imu": ["orientation", "angular_velocity", "linear_acceleration"],
    "WrenchStamped": ["force", "torque"],
    "PoseStamped": ["position", "orientation"],
    "TwistStamped": ["linear", "angular"],
    "Odometry": ["position", "orientation", "linear", "angular"],
}


@dataclass
class Stream:
    """One stream; `raw` is its mapping in the file."""

    name: str
    type: str  # without the package: "Image"
    package: str
    topic: str
    strategy: str
    steps: int
    step_ns: int
    max_age_ns: int
    max_gap_ns: int
    fill: str
    required: bool
    stamp_offset_ns: int
    dtype: str
    ring_rows: int
    reliable: bool
    depth: int
    raw: dict = field(repr=False)

    @property
    def kind(self):
        """One of vector, image and cloud."""
        return {"Image": "image", "PointCloud2": "cloud"}.get(self.type, "vector")


@dataclass
class Configuration:
    rate_hz: float
    lag_ns: int
    timeline: str
    base_frame: str
    output_topic: str
    streams: list

    @property
    def period_ns(self):
        return round(1e9 / self.rate_hz)


def load(path):
    """The configuration in the file at `path`."""
    with open(path, encoding="utf-8") as file:
        raw = yaml.safe_load(file)
    output = raw.get("output") or {}
    return Configuration(
        rate_hz=float(raw["rate_hz"]),
        lag_ns=_ns(raw.get("lag_ms", 0)),
        timeline=raw.get("timeline", "header"),
        base_frame=raw.get("base_frame", "base_link"),
        output_topic=output.get("topic", "fused_tensor"),
        streams=[
            _stream(name, stream, output.get("dtype", "f32"))
            for name, stream in raw["streams"].items()
        ],
    )


def _ns(milliseconds):
    return round(milliseconds * NANOS_PER_MS)


def _stream(name, raw, default_dtype):
    parts = raw["type"].split("/")
    kind = parts[-1]
    vector = kind in VECTOR_FIELDS
    raw = dict(raw)
    if vector:
        all_fields = VECTOR_FIELDS[kind]
        raw.setdefault("fields", ["position"] if kind == "JointState" else all_fields)
    turns = "orientation" in raw.get("fields", [])
    history = raw.get("history") or {}
    qos = raw.get("qos") or {}
    return Stream(
        name=name,
        type=kind,
        package=parts[0],
        topic=raw["topic"],
        strategy=raw.get("strategy", "slerp" if turns else "linear" if vector else "hold"),
        steps=history.get("steps", 1),
        step_ns=_ns(history.get("step_ms", 0)),
        max_age_ns=_ns(raw["max_age_ms"]),
        max_gap_ns=_ns(raw.get("max_gap_ms", 2 * raw["max_age_ms"])),
        fill=raw.get("fill", "zero"),
        required=raw.get("required", False),
        stamp_offset_ns=_ns(raw.get("stamp_offset_ms", 0)),
        dtype=raw.get("dtype", default_dtype),
        ring_rows=raw.get("ring_rows", 1024 if vector else 16),
        reliable=qos.get("reliability", "best_effort") == "reliable",
        depth=qos.get("depth", 256 if vector else 8),
        raw=raw,
    )
