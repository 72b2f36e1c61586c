"""Six cameras, a lidar and an arm: does the node keep up, and what does it cost?

    python3 benches/six_cameras.py --programs DIR [--seconds 60] [--backends cpu,auto,cuda]
                                   [--compressed FILE] [--encode-threads N]
                                   [--damage-one-in N --verify PROGRAM]

Runs, for each backend, the node between `robocache_load rig` and `robocache_load watch`: once with
all sensors and once with the joints alone. One rig publishes rgb8 images of 1920x1080 at 30 Hz and
a cloud of 131,072 points at 10 Hz. With --compressed its cameras send that JPEG or PNG file
instead; camera_jpeg.py makes one. Another rig publishes joints at 500 Hz, in its own process as on
a robot. The node ticks at 100 Hz. A real-time thread that only sleeps (stall_probe.py) runs beside
them.

With --damage-one-in, the file is damaged in one message of N, and there is no run with the joints
alone. With --verify, the node records, and the program `robocache verify` compares each tick with a
replay on cores. Then the lag is so long that no image is late, and the node does more than fuse.

DIR holds fusion_node and robocache_load. The environment must have ROS (AMENT_PREFIX_PATH,
LD_LIBRARY_PATH). Only Python's own library is needed, so this also runs on a machine without rclpy.
It prints a table and writes six_cameras.json. A figure is that of the whole run after its first
seconds. Processor time is that of the node's threads, from /proc.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scripts"))

from processes import thread_seconds, thread_times  # noqa: E402

PROFILE = HERE.parent / "config" / "fastdds.xml"
#: What names a profile for Fast DDS 2, and for Fast DDS 3.
PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
PERIOD_NS = 10_000_000
CAMERAS = 6
LAG_MS = 5
#: No image may be late if the replay is to see the same ones.
VERIFIED_LAG_MS = 180
#: Seconds before the processor time of the node is measured.
WARM_UP = 5

JOINTS = """
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    fields: [position, velocity]
    max_age_ms: 50
    qos: {reliability: reliable, depth: 100}
"""
CAMERA = """
  camera_%d:
    type: sensor_msgs/msg/%s
    topic: /camera_%d
    max_age_ms: 200
    dtype: f16
    image: {resize: {width: 224, height: 224, fit: pad_center}}
"""
LIDAR = """
  points:
    type: sensor_msgs/msg/PointCloud2
    topic: /points
    max_age_ms: 300
    dtype: f16
    cloud:
      origin_m: [-20, -20, -2]
      size_m: 0.4
      shape: [100, 100, 15]
      channels: [{reduce: occupancy}, {reduce: mean, field: z}, {reduce: mean, field: intensity}]
"""


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, required=True, help="fusion_node, robocache_load")
    parser.add_argument("--seconds", type=float, default=60.0, help="per run [s] (60)")
    parser.add_argument("--backends", default="cpu,auto", help="of the node (cpu,auto)")
    parser.add_argument("--cameras", type=int, default=CAMERAS, help=f"({CAMERAS})")
    parser.add_argument("--compressed", type=Path, help="a JPEG or PNG that each camera sends")
    parser.add_argument("--damage-one-in", type=int, default=0, help="file of N; 0: none (0)")
    parser.add_argument("--verify", type=Path, help="the program robocache: record, and verify")
    parser.add_argument("--encode-threads", type=int, default=0, help="of the node (0: it chooses)")
    parser.add_argument("--output", type=Path, default=Path("bench"), help="folder (bench)")
    parser.add_argument("--domain-id", type=int, default=77, help="ROS_DOMAIN_ID (77)")
    arguments = parser.parse_args(argv)
    if arguments.damage_one_in and not arguments.compressed:
        parser.error("--damage-one-in: expected --compressed, the file that it damages")
    return arguments


def configuration(cameras, compressed, lag_ms):
    """The streams: of all sensors, or of the joints alone."""
    kind = "CompressedImage" if compressed else "Image"
    names = "".join(f", joint_{k}" for k in range(14))[2:]
    text = f"rate_hz: 100\nlag_ms: {lag_ms}\nstreams:" + JOINTS + f"    joints: [{names}]\n"
    text += "".join(CAMERA % (k, kind, k) for k in range(cameras))
    return text + (LIDAR if cameras else "")


class Child:
    """A process whose end is certain."""

    def __init__(self, command, log, **options):
        self.log = open(log, "w+")  # noqa: SIM115 (closed by `end`)
        self.process = subprocess.Popen(
            [str(part) for part in command], stdout=self.log, stderr=subprocess.STDOUT, **options
        )

    def end(self, number=signal.SIGINT, patience=20):
        """Sends the signal, waits, and returns the output."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.seek(0)
        return self.log.read()


def run(arguments, backend, cameras, folder):
    """One run of node, rig and watch; returns what each of them says."""
    config = folder / "six_cameras.yaml"
    lag_ms = VERIFIED_LAG_MS if arguments.verify else LAG_MS
    config.write_text(configuration(cameras, arguments.compressed, lag_ms))
    node_command = [arguments.programs / "fusion_node", "--ros-args"]
    parameters = {
        "config_file": config,
        "backend": backend,
        "encode_threads": arguments.encode_threads,
    }
    if arguments.verify:
        parameters["record_to"] = folder / "recordings"
    for name, value in parameters.items():
        node_command += ["-p", f"{name}:={value}"]
    load = arguments.programs / "robocache_load"
    rig_command = [load, "rig", "--seconds", arguments.seconds + WARM_UP]
    rig_commands = [[*rig_command, "--cameras", 0, "--points", 0]]
    if cameras:
        rig_commands += [[*rig_command, "--cameras", cameras, "--joints-hz", 0]]
        if arguments.compressed:
            rig_commands[-1] += ["--compressed", arguments.compressed]
            rig_commands[-1] += ["--damage-one-in", arguments.damage_one_in]
    probe_file = folder / "stalls.json"
    probe_command = [sys.executable, HERE / "stall_probe.py", probe_file]
    probe_command += ["--period-ns", PERIOD_NS]
    children = []

    def start(command, name, **environment):
        environment = {**os.environ, **environment}
        children.append(Child(command, folder / f"{name}.log", env=environment))
        return children[-1]

    try:
        node = start(node_command, "node")
        watch = start([load, "watch", "--seconds", arguments.seconds + 2], "watch")
        # Six cameras in one process need more shared memory than Fast DDS's default.
        rigs = [
            start(command, f"rig_{number}", **dict.fromkeys(PROFILE_VARIABLES, str(PROFILE)))
            for number, command in enumerate(rig_commands)
        ]
        time.sleep(2 * WARM_UP)
        probe = start(probe_command, "probe")
        before, since = thread_times(node.process.pid), time.monotonic()
        time.sleep(max(1.0, arguments.seconds - 2 * WARM_UP))
        after, elapsed = thread_times(node.process.pid), time.monotonic() - since
        probe.end()
        sent = [
            sensor
            for rig in rigs
            for sensor in json.loads(rig.end(0, arguments.seconds + 60).splitlines()[-1])
        ]
        seen = json.loads(watch.end(0, 60).splitlines()[-1])
        output = node.end()
    finally:
        for child in children:
            child.end(signal.SIGKILL)
    cores = {}
    for name, seconds in thread_seconds(before, after).items():
        name = "encode" if name.startswith("encode") else name
        cores[name] = cores.get(name, 0.0) + seconds / elapsed
    stalls = json.loads(probe_file.read_text())
    result = {"sent": sent, "seen": seen, "cores": cores, "stalls": stalls, "node": output}
    if arguments.verify:
        result["verified"] = verify(arguments.verify, folder / "recordings")
    return result


def verify(program, folder):
    """Words of `robocache verify` about the recording, replayed on cores."""
    (recording,) = folder.iterdir()
    command = [program, "verify", recording, "--backend", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    return f"exit code {done.returncode}\n{done.stdout}{done.stderr}"


def row(backend, cameras, result):
    """The figures of a run."""
    seen, cores = result["seen"], result["cores"]
    tick = seen["diagnostics"]["tick"]
    parts = [part for name, part in seen["diagnostics"].items() if "received" in part]
    # A middleware that counts no losses says so, and the sum is then unknown.
    counted = [part for part in parts if part["lost"].isdecimal()]
    total = {key: sum(int(part[key]) for part in parts) for key in ("received", "dropped")}
    total["lost"] = sum(int(part["lost"]) for part in counted) if counted == parts else None
    images = [age for name, age in seen["age"].items() if name.startswith("camera")]
    return {
        "backend": backend,
        "cameras": cameras,
        "sent": sum(sensor["sent"] for sensor in result["sent"]),
        "damaged": sum(sensor["damaged"] for sensor in result["sent"]),
        "skipped": {s["topic"]: s["skipped"] for s in result["sent"] if s["skipped"]},
        **total,
        "overruns": int(tick["overruns"]),
        "probe_missed": sum(missed for _, missed in result["stalls"]["stalls"]),
        "fused_p50_ms": float(tick["fused_latency_p50_ms"]),
        "fused_p99_ms": float(tick["fused_latency_p99_ms"]),
        "tick_p50_ms": float(tick["total_latency_p50_ms"]),
        "tick_p99_ms": float(tick["total_latency_p99_ms"]),
        "arrival_p99_ms": seen["latency"]["p99_ms"],
        "joints_age_p99_ms": seen["age"]["joints"]["p99_ms"],
        "image_age_p99_ms": max((age["p99_ms"] for age in images), default=None),
        "valid_share": seen["valid_share"],
        "cores": sum(cores.values()),
        "threads": {name: round(value, 3) for name, value in sorted(cores.items())},
    }


def main():
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    os.environ["ROS_DOMAIN_ID"] = str(arguments.domain_id)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    rows = []
    for backend in arguments.backends.split(","):
        alone = [] if arguments.damage_one_in else [0]
        for cameras in [*alone, arguments.cameras]:
            with tempfile.TemporaryDirectory() as folder:
                result = run(arguments, backend, cameras, Path(folder))
            rows.append(row(backend, cameras, result))
            (arguments.output / f"six_cameras_{backend}_{cameras}.log").write_text(result["node"])
            if "verified" in result:
                print(f"{backend}, {cameras} cameras, verify: {result['verified']}", flush=True)
            figures = {key: value for key, value in rows[-1].items() if key != "valid_share"}
            print(json.dumps(figures), flush=True)
    (arguments.output / "six_cameras.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
