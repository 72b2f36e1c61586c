"""The processes of a soak: each is started, killed, suspended and looked at."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import processes

SHARED_MEMORY = Path("/dev/shm")
#: Where the engine of shared memory has its services and nodes.
ENGINE = Path("/tmp/iceoryx2")
#: Time for an end by SIGINT [s].
END_S = 20.0
#: What a log must not have.
PANIC = re.compile(rb"panicked at|Traceback \(most recent call last\)|Segmentation fault")


class Subject:
    """A process that a soak starts again and again: lives of a program, with logs in a folder.

    Attributes:
        life: how often it was started before.
        stretch: how often this life was disturbed.
        panics: lives whose log has a panic or a traceback.
        left: files in shared memory that killed lives have left behind.
    """

    def __init__(self, name, command, folder, environment=None):
        self.name, self._command, self._folder = name, [str(word) for word in command], folder
        self._environment = environment
        self.life, self.stretch, self.panics, self.left = -1, 0, [], 0
        self._popen, self._expected = None, False
        self._lock = threading.Lock()
        self.born = 0.0

    @property
    def output(self):
        """The file with the standard output of this life."""
        return self._folder / f"{self.name}-{self.life}.out"

    @property
    def log(self):
        """The file with the standard error of this life."""
        return self._folder / f"{self.name}-{self.life}.log"

    @property
    def pid(self):
        """Its process; None if there is none."""
        with self._lock:
            return self._popen.pid if self._popen else None

    def start(self):
        with self._lock:
            self.life, self.stretch = self.life + 1, 0
            with open(self.output, "wb") as out, open(self.log, "wb") as log:
                self._popen = processes.popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                    env=self._environment,
                    start_new_session=True,
                )
            self.born = time.time()

    def kill(self):
        """Kills it, and removes what the middleware leaves then: nobody else does."""
        names = processes.locked_shared_memory(self.pid)
        self._popen.kill()
        self._buried()
        for name in names:
            for path in (name, f"{name}_el", f"sem.{name}_mutex"):
                with contextlib.suppress(FileNotFoundError):
                    (SHARED_MEMORY / path).unlink()
                    self.left += 1

    def end(self):
        """Ends it by SIGINT. Returns how it ended if that is a fault."""
        if self.pid is None:
            return None
        os.kill(self.pid, signal.SIGCONT)
        os.kill(self.pid, signal.SIGINT)
        try:
            code = self._popen.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"{self.name} still ran {END_S:g} s after SIGINT"
        self._buried()
        return None if code == 0 else f"{self.name} ended with {processes.describe(code)}"

    def suspend(self):
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def has_ended(self):
        """How it ended by itself; None if it runs."""
        code = self._popen.poll() if self._popen else None
        if code is None:
            return None
        self._buried()
        return processes.describe(code)

    def _buried(self):
        """Notes the end. Logs without a panic are removed, so that they do not fill the disk."""
        with self._lock:
            self._popen.wait()
            self._popen = None
        if PANIC.search(self.log.read_bytes()) or PANIC.search(self.output.read_bytes()):
            self.panics.append(self.life)

    def forget(self, kept=3):
        """Removes the files of old lives, except those with a panic."""
        old = self.life - kept
        if old >= 0 and old not in self.panics:
            for end in ("out", "log"):
                (self._folder / f"{self.name}-{old}.{end}").unlink(missing_ok=True)

    def looked_at(self):
        """What the process has: values by metric; empty if it has ended meanwhile."""
        pid = self.pid
        if pid is None:
            return {}
        process = Path(f"/proc/{pid}")
        try:
            rollup = (process / "smaps_rollup").read_text()
            return {
                "stretch": self.stretch,
                **memory(rollup),
                "descriptors": len(os.listdir(process / "fd")),
                "threads": len(os.listdir(process / "task")),
            }
        except OSError:
            return {}


def memory(rollup):
    """RSS, PSS, private and anonymous memory [kB] of the text of smaps_rollup."""
    sizes = {
        name: int(size) for name, size in re.findall(r"^(\w+): +(\d+) kB", rollup, re.MULTILINE)
    }
    private = sum(size for name, size in sizes.items() if name.startswith("Private_"))
    return {
        "rss_kb": sizes["Rss"],
        "pss_kb": sizes["Pss"],
        "private_kb": private,
        "anonymous_kb": sizes["Anonymous"],
    }


def machine():
    """What shared memory has: values by metric."""
    sizes = []
    for path in SHARED_MEMORY.rglob("*"):
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_blocks // 2)
    engine = sum(1 for _ in ENGINE.rglob("*")) if ENGINE.exists() else 0
    return {"shm_files": len(sizes), "shm_kb": sum(sizes), "engine_files": engine}
