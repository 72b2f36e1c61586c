"""podman for the test of the images, with settings that a machine without systemd accepts, too."""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import time

#: What the test needs, and the Debian package of each.
PROGRAMS = {"podman": "podman", "docker-compose": "docker-compose", "debootstrap": "debootstrap"}
#: Runtimes, the preferred first. crun refuses cgroups of version 1 beside version 2.
RUNTIMES = ("crun", "runc")


class Failure(Exception):
    """What was expected, and what was found."""


def output(*command, timeout=120, **more):
    """What a command prints; its messages are part of the failure."""
    run = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=timeout, **more
    )
    if run.returncode:
        what = " ".join(map(str, command[:4]))
        raise Failure(f"{what}: exit code {run.returncode}\n{run.stderr.strip()[-3000:]}")
    return run.stdout.strip()


class Engine:
    """podman, and its service for docker-compose."""

    def __init__(self, folder):
        missing = [package for name, package in PROGRAMS.items() if not shutil.which(name)]
        runtimes = [*filter(shutil.which, RUNTIMES)]
        missing += [] if runtimes else ["a runtime"]
        if os.geteuid() or missing:
            raise Failure(
                "expected root and Debian's packages podman, runc or crun, docker-compose, debootstrap; "
                f"found user {os.geteuid()}, without {', '.join(missing) or 'nothing'}"
            )
        self.configuration = folder / "containers.conf"
        self.socket = folder / "podman.sock"
        os.environ["CONTAINERS_CONF"] = str(self.configuration)
        os.environ["DOCKER_HOST"] = f"unix://{self.socket}"
        self.configure(*runtimes[:1])

    def configure(self, runtime):
        """Limits that need no privilege: podman's own defaults raise those of the machine."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self.configuration.write_text(
            f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", "nproc=4096:4096"]\n'
            f'[engine]\nruntime = "{runtime}"\n'
        )

    def choose_runtime(self, image):
        """Takes the first runtime that runs a container here."""
        refused = []
        for runtime in filter(shutil.which, RUNTIMES):
            self.configure(runtime)
            try:
                output("podman", "run", "--rm", "--network=none", image, "true")
                return runtime
            except Failure as failure:
                refused.append(str(failure))
        raise Failure("no container runs here:\n" + "\n".join(refused or ["no crun, no runc"]))

    @contextlib.contextmanager
    def service(self):
        """The service through which docker-compose speaks to podman."""
        command = ["podman", "system", "service", "--time=0", os.environ["DOCKER_HOST"]]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(self.socket.exists, 20, "the service of podman")
            yield
        finally:
            process.terminate()
            process.wait(20)


def inspect(name, field=""):
    """A field such as "State.Pid" of a container or an image."""
    value = json.loads(output("podman", "inspect", name))[0]
    for key in filter(None, field.split(".")):
        value = value[key]
    return value


def wait_for(is_so, seconds, what):
    """Waits until it is so, and returns the time that took [s]."""
    started = time.monotonic()
    while not is_so():
        if time.monotonic() > started + seconds:
            raise Failure(f"expected {what} within {seconds} s")
        time.sleep(0.5)
    return time.monotonic() - started
