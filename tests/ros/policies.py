"""Policies without ROS: processes of their own, which say lines of JSON."""

import importlib.util
import json
import os
import select
import subprocess
import sys
from pathlib import Path

from waiting import Wait

FOLDER = Path(__file__).parent


def environment(install, folder):
    """An environment whose Python finds NumPy, xxhash and robocache, and nothing of ROS. Its packages are in the folder."""
    packages = folder / "without_ros"
    packages.mkdir()
    for name in ("numpy", "xxhash"):
        package = Path(importlib.util.find_spec(name).origin).parent
        (packages / name).symlink_to(package)
        libraries = package.parent / f"{name}.libs"
        if libraries.exists():
            (packages / libraries.name).symlink_to(libraries)
    (robocache,) = install.glob("lib/python3*/site-packages/robocache")
    (packages / "robocache").symlink_to(robocache)
    kept = ("HOME", "LANG", "PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "PYTHONPATH": str(packages)
    }


class Policy:
    """A policy process and what it has said. Its program is a file of this folder."""

    def __init__(self, environment, program, service, *arguments):
        command = [sys._base_executable, str(FOLDER / program), service, *arguments]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._said = b""
        assert json.loads(self._line())["ready"]

    def _line(self):
        wait, output = Wait("a line of the policy"), self.process.stdout
        while b"\n" not in self._said:
            if select.select([output], [], [], 0.1)[0]:
                said = os.read(output.fileno(), 1 << 16)
                assert said, f"the policy has ended:\n{self.process.stderr.read().decode()}"
                self._said += said
            wait.check()
        line, _, self._said = self._said.partition(b"\n")
        return line

    def next(self):
        """Its words about the next tensor."""
        return json.loads(self._line())

    def newest(self):
        """Its newest words, if it has said some since the last look. Does not wait."""
        output = self.process.stdout
        while select.select([output], [], [], 0)[0]:
            said = os.read(output.fileno(), 1 << 16)
            assert said, f"the policy has ended:\n{self.process.stderr.read().decode()}"
            self._said += said
        *lines, self._said = self._said.split(b"\n")
        return json.loads(lines[-1]) if lines else None

    def kill(self):
        self.process.kill()
        self.process.wait()
