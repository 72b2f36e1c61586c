"""Verifies the recordings of a soak, one after the other, and deletes those that are as they must be."""

import json
import os
import shutil
import subprocess
import threading

#: Ticks that prove something.
LEAST_TICKS = 100
#: Recordings that are kept because they differ.
MOST_KEPT = 3
#: So long after a suspension of the node a tick may differ: its encoders were behind [s].
AFTER_S = 3.0
TICK_S = 0.01
TIMEOUT_S = 900


class Recordings:
    """The recordings in a folder. A thread verifies all but the newest one.

    Attributes:
        folder: where the node records.
        results: (metric, value) of what was found and has not been taken.
    """

    def __init__(self, folder, program, suspensions):
        self.folder, self._program, self._suspensions = folder, program, suspensions
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
            self._verify(path)

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

    def _verify(self, path):
        self._done.add(path)
        command = ["nice", "-n", "39", self._program, "verify", path, "--json"]
        run = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        problem = None
        if run.returncode in (0, 3):
            report = json.loads(run.stdout)
            problem = self._judge(report)
        else:
            # A node that is ended soon after its start has sent no tensor.
            report, problem = self._short(path), f"exit code {run.returncode}: {run.stderr}"
            if report is not None:
                problem = None
            else:
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
        listed = [tick["tick"] * TICK_S for tick in report["different"]]
        excused = sum(map(self._is_excused, listed))
        different = report["differing"] - min(excused, report["differing"] - report["unexplained"])
        self.results += [
            ("equal", report["equal"]),
            ("different", different),
            ("different_after_a_stop", report["differing"] - different),
            ("unverifiable", report["unverifiable"]),
            ("recorder_missing", report["missing"] + report["missing_events"]),
            ("recordings", 1),
        ]
        return f"{different} ticks differ" if different else None

    def _is_excused(self, instant):
        return any(begin - 1 <= instant <= end + AFTER_S for begin, end in self._suspensions)

    def _short(self, path):
        """An empty report of a recording that is too short to prove anything; None if it is longer."""
        size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        return {} if size < LEAST_TICKS * 1000 else None


def disk_bytes(folder):
    """The size of all files below a folder."""
    return sum(
        os.path.getsize(os.path.join(base, name))
        for base, _, names in os.walk(folder)
        for name in names
    )
