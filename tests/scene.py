"""What a failed wait looks like: backtraces of the processes, and the list of /dev/shm."""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from evidence import descendants

#: gdb gets so long for a process, and for all of them together [s].
EACH, ALL = 60, 120


def backtraces(root=None):
    """Sections of a report, each a title and a text: the backtrace of each process that this one has started.

    With `root`, of that process and of each that it has started.
    """
    sections, end = [], time.monotonic() + ALL
    for process in descendants(os.getpid())[1:] if root is None else descendants(root):
        # The process may end at any time.
        with contextlib.suppress(OSError):
            words = (
                Path(f"/proc/{process}/cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
            )
            if words and "witness.py" not in words:
                text = backtrace(process, min(EACH, end - time.monotonic()))
                sections.append((f"process {process}: {words[:200]}", text))
    return sections


def shared_memory():
    """A section with the list of /dev/shm."""
    names = sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else []
    return ("/dev/shm", "\n".join(names))


def backtrace(process, limit=EACH):
    """The backtraces of all threads of a process, or the reason why there are none."""
    if shutil.which("gdb") is None:
        threads = Path(f"/proc/{process}/task").iterdir()
        return "no gdb here; threads: " + ", ".join(
            (of / "comm").read_text().strip() for of in threads
        )
    if limit <= 0:
        return f"none: the processes before took {ALL} s"
    command = ["gdb", "--nx", "--batch", "-p", str(process), "-ex", "thread apply all backtrace 16"]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"gdb did not end within {limit:.0f} s"
    return run.stdout[-12_000:]
