"""Loads a configuration file of robocache for Python tools that run beside the node.

`robocache check --json` reads and validates the file, and fills in the defaults. This module runs
it, so that each default is written only once. The demo, the benchmark and its peer node use it.
"""

import json
import os
import shutil
import subprocess
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
#: Where `make build` puts the program, and where `cargo build` does.
INSTALLED = REPOSITORY / "install" / "robocache_ros" / "lib" / "robocache_ros" / "robocache"
BUILT = [REPOSITORY / "target" / profile / "robocache" for profile in ("debug", "release")]


class ConfigurationError(Exception):
    """The file is no valid configuration, or `robocache` was not found; the message says which."""


@dataclass
class Input:
    """One input of a stream: a subscription."""

    name: str
    topic: str
    type: str  # as "sensor_msgs/msg/Image"
    reliability: str  # auto, reliable or best_effort
    durability: str  # auto, volatile or transient_local
    depth: int
    timeline: str  # header or receive
    stamp_offset_ns: int
    frame_id: str | None
    expected_rate_hz: float | None
    t_base_sensor: list | str | None = None  # of clouds: [R | t] row by row, or "tf"

    @property
    def package(self):
        """The package of the type: "sensor_msgs"."""
        return self.type.split("/")[0]

    @property
    def message(self):
        """The type without its package: "Image"."""
        return self.type.split("/")[-1]


@dataclass
class Stream:
    """One stream. `encoder` holds the settings of its kind, with the names in `robocache check`."""

    name: str
    kind: str  # vector, image or voxels
    encoder: dict = field(repr=False)
    fields: list  # of a vector, in the order of the row
    joints: list  # in the order of the row
    strategy: str
    lag_ns: int
    steps: int
    step_ns: int
    max_age_ns: int
    max_gap_ns: int
    fill: str
    required: bool
    dtype: str
    ring_rows: int
    inputs: list

    @property
    def topics(self):
        """The topics of its inputs."""
        return [source.topic for source in self.inputs]

    @property
    def message(self):
        """The type of its messages, without the package: "Image"."""
        return self.inputs[0].message


@dataclass
class Configuration:
    """The whole configuration. Times are in nanoseconds."""

    rate_hz: float
    period_ns: int
    base_frame: str
    output_topic: str
    streams: list


def load(path):
    """Loads the configuration in the file at `path`. ConfigurationError says what is wrong."""
    executable = program()
    report = _report(executable, path)
    try:
        return _configuration(report)
    except KeyError as key:
        message = (
            f"{executable}: its report has no {key}; it has another version, so build it again"
        )
        raise ConfigurationError(message) from key


def _configuration(report):
    config = _picked(Configuration, report)
    config.streams = [_picked(Stream, stream) for stream in config.streams]
    for stream in config.streams:
        stream.inputs = [_picked(Input, source) for source in stream.inputs]
    return config


def _picked(kind, report):
    """An object of the dataclass `kind`, from the keys of the same names."""
    optional = {entry.name for entry in fields(kind) if entry.default is not MISSING}
    names = (entry.name for entry in fields(kind))
    return kind(**{name: report[name] for name in names if name in report or name not in optional})


def _report(program, path):
    command = [program, "check", "--json", str(path)]
    try:
        run = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise ConfigurationError(f"cannot start {program}: {error}") from error
    if run.returncode != 0:
        raise ConfigurationError(run.stderr.strip() or f"{program}: exit code {run.returncode}")
    return json.loads(run.stdout)


def program():
    """The path of `robocache`: that in ROBOCACHE, else installed, else built by cargo."""
    if named := os.environ.get("ROBOCACHE"):
        return named
    if found := shutil.which("robocache"):
        return found
    if os.access(INSTALLED, os.X_OK):
        return str(INSTALLED)
    if built := [path for path in BUILT if os.access(path, os.X_OK)]:
        return str(max(built, key=lambda path: path.stat().st_mtime))  # the newest
    looked = "\n  ".join(map(str, ["PATH", INSTALLED, *BUILT]))
    raise ConfigurationError(
        "no executable robocache: run `make build`, or `cargo build`, or name "
        f"one in ROBOCACHE; looked in\n  {looked}"
    )
