"""Verifies the recordings of a soak, one after the other, and deletes those that are as they must be."""

import contextlib
import json
import os
import shutil
import subprocess
import threading

#: A shorter recording has no tensor.
SHORT_BYTES = 100_000
#: Recordings that are kept because something is wrong.
MOST_KEPT = 3
TIMEOUT_S = 900


class Recordings:
    """The recordings in a folder. A thread verifies all but the newest one.

    Attributes:
        folder: where the node records.
        results: (metric, value) of what was found and has not been taken.
    """

    def __init__(self, folder, program):
        self.folder, self._program = folder, program
        self.folder.mkdir(parents=True)
        self.results, self._kept, self._done = [], 0, set()
        self._stop, self._all = threading.Event(), False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self):
        """Verifies the rest. The node has ended."""
        self._stop.set()
        self._thread.join()
        for path in self._waiting():
            self._verify(path, [])

    def take(self):
        """What was found since the last call."""
        found, self.results = self.results, []
        return found

    def _waiting(self):
        paths = sorted(self.folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return [path for path in paths if path not in self._done]

    def _run(self):
        while not self._stop.wait(2.0):
            for path in self._waiting()[:-1]:
                self._verify(path)

    def _verify(self, path, politely=("nice", "-n", "39")):
        self._done.add(path)
        command = [*politely, self._program, "verify", path, "--json"]
        try:
            run = subprocess.run(
                [*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            print(f"soak: {path.name}: not verified within {TIMEOUT_S} s", flush=True)
            self.results.append(("unverified", 1))
            return
        problem = None
        if run.returncode in (0, 3):
            report = json.loads(run.stdout)
            problem = self._judge(report)
        else:
            # A node that is ended soon after its start has sent no tensor.
            report = None
            if not self._is_short(path):
                problem = f"exit code {run.returncode}: {run.stderr}"
                self.results.append(("unverified", 1))
        if problem is None:
            shutil.rmtree(path)
            return
        print(f"soak: {path.name}: {problem}", flush=True)
        self._kept += 1
        if self._kept > MOST_KEPT:
            shutil.rmtree(path)
        else:
            (path / "verify.json").write_text(json.dumps(report) if report else run.stderr)

    def _judge(self, report):
        """Notes a report. Returns what is wrong."""
        unexplained = report["unexplained"]
        self.results += [
            ("equal", report["equal"]),
            # A message had come, and its row was late: the machine was busy, or the node stood still.
            ("late", report["differing"] - unexplained),
            ("unexplained", unexplained),
            ("unverifiable", report["unverifiable"]),
            ("recorder_missing", report["missing"] + report["missing_events"]),
            ("recordings", 1),
        ]
        return f"{unexplained} ticks differ without a cause" if unexplained else None

    def _is_short(self, path):
        """Whether a recording is too short to prove anything."""
        size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        return size < SHORT_BYTES


def disk_bytes(folder):
    """The size of all files below a folder. Another thread may delete some meanwhile."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(os.path.join(base, name))
    return total
