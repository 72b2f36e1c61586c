#!/usr/bin/env python3
"""Builds the images, and runs compose.yaml with podman: `make image-test`.

The exit code is 0 only if both images build, the node runs without root and without writing to its root, its health
follows what it does, the policy gets tensors over shared memory, also after the node was killed, and all end on a signal
with exit code 0.

Environment: BASE, RUST and POLICY_BASE, the images to build on. Each that is not given has a stand-in (standins.py).
INSTALLED=on takes what `make build` has installed in place of the stage that compiles, which is not tested then.
"""

import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import standins  # noqa: E402 (the path comes first)
from engine import Engine, Failure, inspect, output, wait_for  # noqa: E402
from standins import REPOSITORY  # noqa: E402

PROJECT = "robocache_image_test"
#: A robot must send joints, so that a node without a robot is in error.
CONFIG = """\
rate_hz: 100
lag_ms: 20
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    joints: [joint_0, joint_1, joint_2]
    max_age_ms: 200
    required: true
"""
#: Time for a container to start, to heal, or to become unhealthy [s].
PATIENCE = 60


def step(words):
    print(f"image-test: {words}", flush=True)


def labelled(*command, service=None):
    """The names of the project's containers or volumes. How compose forms a name depends on its version."""
    labels = {"project": PROJECT, **({"service": service} if service else {})}
    filters = [f"--filter=label=com.docker.compose.{key}={value}" for key, value in labels.items()]
    return output("podman", *command, "-q", *filters).split()


@functools.cache
def name_of(service):
    (name,) = labelled("ps", "-a", service=service)
    return name


def build():
    """Builds both images. The compiler's messages go to the terminal."""
    arguments = ["--format", "docker", "--network=host"]
    made = {"BASE": standins.ROS, "RUST": standins.RUST, "POLICY_BASE": standins.DEBIAN}
    for name, standin in made.items():
        arguments += ["--build-arg", f"{name}={os.environ.get(name) or standin}"]
    if os.environ.get("INSTALLED") == "on":
        standins.installed()
        arguments += ["--build-context", f"build=container-image://{standins.BUILD}"]
        step("NOT tested: that the image compiles. It has what `make build` has installed")
    for image, target in (("robocache", "node"), ("robocache-policy", "policy")):
        started = time.monotonic()
        command = ["podman", "build", *arguments, "--target", target, "-t", image, "."]
        if subprocess.run(command, cwd=REPOSITORY).returncode:
            raise Failure(f"the image {image} does not build (above)")
        step(f"{image} built in {time.monotonic() - started:.0f} s")


def health():
    """The state after one more check. Without systemd podman does not check by itself."""
    subprocess.run(["podman", "healthcheck", "run", name_of("node")], capture_output=True)
    state = inspect(name_of("node"), "State")
    return (state.get("Health") or state.get("Healthcheck"))["Status"]


def await_health(wanted):
    took = wait_for(lambda: health() == wanted, PATIENCE, f"the node to be {wanted}")
    step(f"the node is {wanted} after {took:.0f} s")


def log(service):
    run = subprocess.run(["podman", "logs", name_of(service)], capture_output=True, text=True)
    return run.stdout + run.stderr


def actions():
    """How many commands the policy has made so far. Each is a line with an array."""
    return sum(line.startswith("[") for line in log("policy").splitlines())


def await_actions(what):
    before = actions()
    took = wait_for(lambda: actions() > before + 200, PATIENCE, f"200 actions of the policy {what}")
    step(f"200 actions of the policy {what} took {took:.1f} s")


def check_confinement():
    """The node is not root, may nothing, and cannot write to its image."""
    status = output("podman", "exec", name_of("node"), "cat", "/proc/1/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    if fields["Name"] != "fusion_node" or "0" in fields["Uid"].split():
        raise Failure(f"expected fusion_node as first process, not as root; found {fields}")
    if int(fields["CapEff"], 16) or fields["NoNewPrivs"] != "1":
        raise Failure(f"expected no capability, found {fields['CapEff']}, {fields['NoNewPrivs']}")
    for folder, is_writable in (("/opt/robocache", False), ("/tmp", True)):
        touch = ["podman", "exec", name_of("node"), "touch", f"{folder}/trial"]
        if (subprocess.run(touch, capture_output=True).returncode == 0) != is_writable:
            raise Failure(f"{folder}: expected writable: {is_writable}")
    step("the node is without root and capabilities, on a read-only root")


def check_notices():
    """Both images have the licences of all that is in them."""
    for service, path in (("node", "install/THIRD_PARTY.txt"), ("policy", "THIRD_PARTY.txt")):
        text = output("podman", "exec", name_of(service), "cat", f"/opt/robocache/{path}")
        if not all(name in text for name in ("Yann Collet", "r2r_rcl", "rust-std")):
            raise Failure(f"{service}: expected the licences in {path}, found {text[:200]!r}")
    step("both images have the licences of others' works")


def check_health():
    """The health follows the node: well, hung, well again, in error, and well again."""
    await_health("healthy")
    pid = inspect(name_of("node"), "State.Pid")
    os.kill(pid, signal.SIGSTOP)
    try:
        await_health("unhealthy")
    finally:
        os.kill(pid, signal.SIGCONT)
    await_health("healthy")
    output("podman", "stop", name_of("robot"))
    await_health("unhealthy")
    output("podman", "start", name_of("robot"))
    await_health("healthy")


def check_restart():
    """A node that was killed starts again, and the policy goes on."""
    pid = inspect(name_of("node"), "State.Pid")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: inspect(name_of("node"), "State.Pid") not in (0, pid), PATIENCE, "a new node")
    await_actions("after the node was killed")


def check_end():
    """Each ends on the signal of its container, in time and with exit code 0."""
    for service, grace_s in (("node", 15), ("policy", 10), ("robot", 10)):
        started = time.monotonic()
        output("podman", "stop", "-t", grace_s, name_of(service))
        took, code = time.monotonic() - started, inspect(name_of(service), "State.ExitCode")
        if code or took > grace_s:
            raise Failure(f"{service}: expected exit code 0 in {grace_s} s, found {code}, {took} s")
        step(f"the {service} ended with exit code 0 after {took:.1f} s")


def run():
    """Runs compose.yaml, and checks it."""
    compose = ["docker-compose", "-p", PROJECT, "-f", REPOSITORY / "compose.yaml"]
    try:
        output(*compose, "up", "-d", "--no-build", timeout=300)
        check_confinement()
        check_notices()
        await_actions("from the start")
        check_health()
        check_restart()
        check_end()
    except Failure as failure:
        logs = "\n".join(f"== {name}\n{log(name)[-3000:]}" for name in ("robot", "node", "policy"))
        raise Failure(f"{failure}\n{logs}") from None
    finally:
        # Whatever else failed, nothing is left behind.
        for command in (["ps", "-a"], ["volume", "ls"]):
            remove = ["volume", "rm"] if "volume" in command else ["rm", "--time=1", "--depend"]
            for name in labelled(*command):
                subprocess.run(["podman", *remove, "--force", name], capture_output=True)


def main():
    try:
        with tempfile.TemporaryDirectory() as folder:
            engine = Engine(Path(folder))
            config = Path(folder) / "config.yaml"
            config.write_text(CONFIG)
            config.chmod(0o644)
            os.environ["ROBOCACHE_CONFIG"] = str(config)
            standins.debian()
            step(f"containers run with {engine.choose_runtime(standins.DEBIAN)}")
            standins.rust()
            standins.ros()
            build()
            with engine.service():
                run()
    except (Failure, subprocess.TimeoutExpired) as failure:
        print(f"image-test: error: {failure}", file=sys.stderr)
        return 1
    step("all passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
