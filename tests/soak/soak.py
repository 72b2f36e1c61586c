"""A soak: robot, node and two policies run for long, while processes are killed, suspended and started again.

    make soak SOAK_S=3600 SOAK_OPTIONS='--managed --seed 7'

A random, printed seed decides what happens when. Every five seconds the soak writes what the processes have and what
the policies got into OUTPUT/samples.csv; verdict.py judges it. The node records all the time; each recording is
verified and deleted. The exit code is 0 if the verdict is good.
"""

import argparse
import csv
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / part) for part in ("scripts", "python")]

import verdict  # noqa: E402
from disturbances import Disturbances  # noqa: E402
from domains import free_domain  # noqa: E402
from processes import Diagnostics, executable, private_environment  # noqa: E402
from recordings_of_node import Recordings, disk_bytes  # noqa: E402
from reports import Node, PolicyReports, percentiles  # noqa: E402
from subjects import Subject, machine  # noqa: E402

SAMPLE_S = 5.0
#: So long after the last disturbance a sample is quiet [s].
SETTLE_S = 5.0
TICKS_HZ = 100
ROBOT = (
    "--joints-hz 200 --wrench-hz 200 --imu-hz 100 --camera-front-hz 10 --camera-wrist-hz 0 --lidar-hz 5 "
    "--image-width 160 --image-height 120 --lidar-rings 16 --lidar-columns 256"
).split()
#: Bound of the second derivative times h squared by 8 is the error between samples h seconds apart; and that of f32.
GAP_S, ROUNDING = 0.02, 1e-5
#: Names this process in a namespace of its own.
INSIDE = "ROBOCACHE_SOAK_INSIDE"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="length [s] (300)")
    parser.add_argument("--seed", type=int, help="of what happens (a random one)")
    parser.add_argument("--managed", action="store_true", help="the node is a lifecycle node")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "soak", help="folder (soak)")
    arguments = parser.parse_args()
    if arguments.seconds < 120:
        parser.error(f"--seconds: expected 120 or more, found {arguments.seconds:g}")
    return arguments


def own_shared_memory():
    """Goes on in a namespace whose /dev/shm and services of the engine belong to this soak alone.

    Without the right to do so, other programs' shared memory counts as well.
    """
    if os.environ.get(INSIDE):
        return
    mounts = (
        "mount -t tmpfs tmpfs /dev/shm && mkdir -p /tmp/iceoryx2"
        " && mount -t tmpfs -o mode=0700 tmpfs /tmp/iceoryx2"
    )
    unshare = ["unshare", "--mount", "--propagation", "private"]
    for options in ([], ["--map-root-user"]):
        command = [*unshare, *options, "sh", "-c"]
        if subprocess.run([*command, mounts], capture_output=True).returncode == 0:
            os.environ[INSIDE] = "1"
            again = f'{mounts} && exec "$@"'
            line = [*command, again, "sh", sys.executable, *sys.argv]
            os.execvp(line[0], line)
    print("soak: no namespace of its own: shared memory of other programs counts too", flush=True)


class Soak:
    """The processes, and what is noted of them."""

    def __init__(self, arguments, rows):
        self.arguments = arguments
        folder = arguments.output
        self.service = f"robocache_soak/{os.getpid()}"
        self._rows, self._lock = rows, threading.Lock()
        self.began = time.time()
        #: Since when nothing is disturbed; None while something is.
        self.quiet_since = None
        self.recordings = Recordings(folder / "recordings", executable("robocache"))
        self.subjects = self._subjects(folder)
        self.policies = {
            name: PolicyReports(subject)
            for name, subject in self.subjects.items()
            if name.startswith("policy")
        }
        self.probe = PolicyReports(self.subjects["probe"])
        self.client = Node(Diagnostics)
        self._previous = {name: (time.time(), 0) for name in self.policies}

    def _subjects(self, folder):
        logs = folder / "logs"
        logs.mkdir()
        here = Path(__file__).parent
        node = [executable("fusion_node"), "--ros-args"]
        parameters = {
            "config_file": here / "robot.yaml",
            "shared_output": self.service,
            "record_to": self.recordings.folder,
            "managed": str(self.arguments.managed).lower(),
        }
        node += [word for key, value in parameters.items() for word in ("-p", f"{key}:={value}")]
        policy = [sys._base_executable, here / "policy.py"]
        shared = [*policy, "--shared", self.service]
        topic = [sys.executable, here / "policy.py", "--topic", "fused_tensor"]
        robot = [executable("sensor_sim"), *ROBOT, "--seed", self.arguments.seed]
        made = [
            Subject("robot", robot, logs),
            Subject("node", node, logs),
            Subject("policy_topic", topic, logs),
            Subject("policy_shared", shared, logs, without_ros(folder)),
            # Nothing disturbs it.
            Subject("probe", [sys.executable, here / "policy.py", "--probe"], logs),
        ]
        return {subject.name: subject for subject in made}

    def note(self, subject, values, quiet=False):
        """Writes values of a subject."""
        now = time.time()
        known = self.subjects.get(subject)
        life, age = (known.life, now - known.born) if known else (0, 0.0)
        with self._lock:
            for metric, value in values.items():
                row = (f"{now - self.began:.1f}", subject, life, f"{age:.1f}", int(quiet))
                self._rows.writerow((*row, metric, f"{value:.6g}"))

    def start(self, name):
        """Starts a life of a process. A managed node is asked to work."""
        subject = self.subjects[name]
        subject.start()
        subject.forget()
        if name == "node" and self.arguments.managed:
            return all(self.client.change(label, 20.0) for label in ("configure", "activate"))
        return True

    def is_quiet(self, seconds=SETTLE_S):
        """Whether nothing has been disturbed for so long."""
        since = self.quiet_since
        return since is not None and time.time() - since >= seconds

    def sample(self):
        """Notes what all have, and what came since the last sample."""
        quiet = self.is_quiet()
        for name, subject in self.subjects.items():
            self.note(name, subject.looked_at(), quiet)
        self.note("machine", machine(), quiet)
        self.note("machine", {"disk_mb": disk_bytes(self.arguments.output) / 1e6})
        self.note("node", self.client.values(), quiet)
        # The time of these began with the sample before.
        quiet = self.is_quiet(SETTLE_S + SAMPLE_S)
        now = time.time()
        latencies, *_ = self.probe.between(now - SAMPLE_S, now)
        self.note("probe", percentiles(latencies), quiet)
        for name, reports in self.policies.items():
            self._sample_policy(name, reports, quiet)
        for metric, value in self.recordings.take():
            self.note("recording", {metric: value})

    def _sample_policy(self, name, reports, quiet):
        before, faults = self._previous[name]
        # A policy writes a line every quarter of a second.
        now = time.time() - 0.5
        latencies, tensors, invalid = reports.between(before, now)
        self._previous[name] = (now, len(reports.faults))
        for fault in reports.faults[faults:]:
            print(f"soak: {name}: {fault}", flush=True)
        values = {"tensors": tensors, "ticks": (now - before) * TICKS_HZ, "invalid": invalid}
        values |= percentiles(latencies) | {"faults": len(reports.faults) - faults}
        self.note(name, values, quiet)

    def check_values(self):
        """Compares values of the joints with the robot's own."""
        for name, reports in self.policies.items():
            witnesses, reports.witnesses = reports.witnesses, []
            if witnesses:
                wrong = wrong_values(witnesses, self.arguments.seed)
                self.note(name, {"values_checked": len(witnesses), "wrong_values": wrong})


def without_ros(folder):
    """An environment whose Python finds NumPy, xxhash and robocache, and nothing of ROS."""
    packages = folder / "without_ros"
    packages.mkdir()
    for name in ("numpy", "xxhash", "robocache"):
        package = Path(importlib.util.find_spec(name).origin).parent
        if name == "robocache":
            install = Path(executable("robocache")).parents[2]
            (package,) = install.glob("lib/python3*/site-packages/robocache")
        (packages / name).symlink_to(package)
        libraries = package.parent / f"{name}.libs"
        if libraries.exists():
            (packages / libraries.name).symlink_to(libraries)
    kept = ("HOME", "LANG", "PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "PYTHONPATH": str(packages)
    }


def wrong_values(witnesses, seed):
    """How many of the values of the joints are not those of the robot at their instants."""
    # A value that is held is that of the row; one between two rows is that of the target.
    instants = [target - max(age, 0) for target, age, _ in witnesses]
    command = [executable("sensor_sim"), "--seed", str(seed), "--truth-at"]
    command.append(",".join(map(str, instants)))
    truth = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    wrong = 0
    for (target, age, values), at in zip(witnesses, truth["instants"], strict=True):
        pairs = zip(values, at["joints"], truth["bend"]["joints"])
        bound = GAP_S**2 / 8 if age < 0 else 0.0
        far = [abs(found - right) > bound * bend + ROUNDING for found, right, bend in pairs]
        if any(far):
            print(f"soak: joints at {target}, age {age}: {values}, not {at['joints']}", flush=True)
            wrong += 1
    return wrong


def run(arguments, rows):
    """Runs the soak to its end. Returns the subjects."""
    soak = Soak(arguments, rows)
    stop = threading.Event()

    def sampling():
        count = 0
        while not stop.wait(SAMPLE_S):
            try:
                soak.sample()
                count += 1
                if count % 12 == 0:
                    soak.check_values()
            except Exception:
                traceback.print_exc()
                soak.note("machine", {"not_sampled": 1})

    sampler = threading.Thread(target=sampling, daemon=True)
    try:
        for name in soak.subjects:
            soak.start(name)
        sampler.start()
        Disturbances(soak, random.Random(arguments.seed)).run(arguments.seconds)
    except KeyboardInterrupt:
        print("soak: interrupted", flush=True)
        soak.note("machine", {"interrupted": 1})
    finally:
        stop.set()
        # If the sampler did not begin, the processes must end all the same.
        if sampler.ident is not None:
            sampler.join()
        soak.quiet_since = None
        for name, subject in reversed(soak.subjects.items()):
            problem = subject.end()
            if problem:
                print(f"soak: {problem}", flush=True)
            soak.note(name, {"ended": int(problem is not None), "panics": len(subject.panics)})
            soak.note(name, {"lives": subject.life + 1, "left_in_shm": subject.left})
        soak.recordings.finish()
        soak.sample()
        soak.check_values()
        soak.client.close()


def main():
    arguments = parse_arguments()
    own_shared_memory()
    # A shell starts a background job with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    private_environment(free_domain())
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 31)
    kind = "managed" if arguments.managed else "plain"
    print(f"soak: {arguments.seconds:g} s, {kind} node, seed {arguments.seed}", flush=True)
    path = arguments.output / "samples.csv"
    if path.exists():
        shutil.rmtree(arguments.output)
    elif arguments.output.exists() and any(arguments.output.iterdir()):
        sys.exit(f"--output: expected an empty folder or that of a soak, found {arguments.output}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", buffering=1) as file:
        rows = csv.writer(file)
        rows.writerow(("at_s", "subject", "life", "age_s", "quiet", "metric", "value"))
        run(arguments, rows)
    findings = verdict.judge(verdict.read(path), verdict.Limits.of(arguments.seconds))
    text = "\n".join(map(str, findings))
    good = verdict.passed(findings)
    text += f"\n{'PASSED' if good else 'FAILED'} (seed {arguments.seed})\n"
    (arguments.output / "verdict.txt").write_text(text)
    print(text, end="", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
