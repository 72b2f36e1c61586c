"""Evidence of who made a wait too long: the machine or the code.

Three facts blame the machine. The first is a pause: nothing ran for a while, because a hypervisor or a quota took the
processors away. `witness.py` notes pauses in a file. The second is stolen time: the hypervisor took the processors away
often, for moments that are no pauses. `/proc/stat` counts it. The third is a shortage: the test's processes were ready
to run and got too little processor time, because other processes had it. Linux counts both in
`/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst): time on a processor, and time ready but not
on one [ns]. Stolen time is in neither.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

#: Names the file in which the witness of this run writes.
WITNESS = "ROBOCACHE_WITNESS"
#: The machine is to blame for this part of the patience, or if a process got less than this part of what it asked for.
SHARE = 1 / 3
#: Processes that asked for less than this part of the wait were asleep. Then their share says nothing.
ASKED = 1 / 10


@dataclass
class Evidence:
    """What the machine did in a wait."""

    #: Length of the wait [s], and the patience that it had [s].
    waited_s: float
    patience_s: float
    #: Sum of the machine's pauses in the wait, and the longest one [s].
    paused_s: float
    longest_pause_s: float
    #: Processor time that the test's processes got, and that they asked for [s].
    got_s: float
    asked_s: float
    #: Number of processors that they may use.
    processors: int
    #: Time that the hypervisor took, the mean of all processors [s].
    stolen_s: float = 0.0

    @property
    def blames_machine(self):
        """True if the machine is to blame for this wait, and not the code."""
        if self.paused_s >= SHARE * self.patience_s or self.stolen_s >= SHARE * self.waited_s:
            return True
        # Processes that had a good part of the machine were short of time because of each other.
        least = SHARE * min(self.asked_s, self.processors * self.waited_s)
        return self.asked_s >= ASKED * self.waited_s and self.got_s < least

    def __str__(self):
        return (
            f"the machine paused for {self.paused_s:.1f} s (longest {self.longest_pause_s:.2f} s), and "
            f"{self.stolen_s:.1f} s were stolen; the processes got "
            f"{self.got_s:.1f} s of the {self.asked_s:.1f} s of processor time that they asked for"
        )


def descendants(root):
    """The process and all its descendants, by their numbers."""
    children = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            # The process may end at any time.
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = Path(entry.path, "stat").read_text()
                # proc(5): the name may contain spaces and parentheses. The parent follows the state.
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, pending = [], [root]
    while pending:
        process = pending.pop()
        found.append(process)
        pending += children.get(process, [])
    return found


@dataclass(frozen=True)
class Times:
    """Processor time of a thread so far."""

    #: On a processor, and ready but not on one [ns]. The second changes only when the thread gets a processor.
    got: int
    delayed: int
    #: How often it got a processor.
    turns: int
    #: True if it is on a processor or ready.
    is_ready: bool


def processor_times(root=None):
    """Thread number to times, for all threads of the process and its descendants."""
    found = {}
    for process in descendants(os.getpid() if root is None else root):
        with contextlib.suppress(OSError):
            for thread in os.scandir(f"/proc/{process}/task"):
                with contextlib.suppress(OSError):
                    numbers = Path(thread.path, "schedstat").read_text().split()
                    # proc(5): the state follows the name.
                    state = Path(thread.path, "stat").read_text().rpartition(")")[2].split()[0]
                    found[int(thread.name)] = Times(*map(int, numbers), state == "R")
    return found


def stolen_time():
    """Time that the hypervisor took since the boot, the mean of all processors [s]."""
    # proc(5): the first line is the sum of all processors. Its eighth number is stolen time.
    ticks = int(Path("/proc/stat").read_text().split(maxsplit=9)[8])
    return ticks / os.sysconf("SC_CLK_TCK") / os.cpu_count()


def pauses(begin, end, path=None):
    """The parts of the machine's pauses between two instants of the monotonic clock [s]."""
    path = path or os.environ.get(WITNESS)
    found = []
    if path and Path(path).exists():
        for line in Path(path).read_text().splitlines():
            with contextlib.suppress(ValueError):
                first, last = map(float, line.split())
                part = min(last, end) - max(first, begin)
                if part > 0:
                    found.append(part)
    return found


class Watch:
    """Collects the evidence of one wait, from now on."""

    def __init__(self, patience_s):
        self.began = time.monotonic()
        self.patience_s = patience_s
        self._before = None
        self._looked = self._stolen_before = 0.0

    def look(self, now=False):
        """Notes the processor times once the wait has taken a second, because most waits are over before; or now."""
        if self._before is None and (now or time.monotonic() - self.began > 1):
            self._looked, self._stolen_before = time.monotonic(), stolen_time()
            self._before = processor_times()

    def evidence(self, last_s=None):
        """The evidence so far. With `last_s`, pauses are those of a wait that began so long ago, and had no more time."""
        now = time.monotonic()
        paused = pauses(self.began if last_s is None else now - last_s, now)
        # Without a look at the beginning, the times would be those of whole lives.
        before, after = (self._before, processor_times()) if self._before else ({}, {})
        got = asked = 0.0
        for thread, of in after.items():
            first = before.get(thread, Times(0, 0, 0, False))
            got += (of.got - first.got) / 1e9
            asked += (of.got - first.got + of.delayed - first.delayed) / 1e9
            # It still waits for a processor.
            asked += now - self._looked if of == first and of.is_ready else 0
        return Evidence(
            waited_s=now - self.began,
            patience_s=self.patience_s if last_s is None else last_s,
            paused_s=sum(paused),
            longest_pause_s=max(paused, default=0.0),
            stolen_s=stolen_time() - self._stolen_before if before else 0.0,
            got_s=got,
            asked_s=asked,
            processors=len(os.sched_getaffinity(0)),
        )


class Witness:
    """The witness as a child of this process, which tells its other children where the notes are."""

    def __init__(self):
        handle, self.path = tempfile.mkstemp(prefix="robocache_pauses_")
        os.close(handle)
        script = Path(__file__).with_name("witness.py")
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", script, self.path],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.environ[WITNESS] = self.path

    def end(self):
        """Ends the witness and removes its notes."""
        os.environ.pop(WITNESS, None)
        self._process.kill()
        self._process.wait()
        os.unlink(self.path)
