"""Notes the pauses of the machine: `witness.py FILE` adds a line "begin end" to FILE for each [s, monotonic clock].

It sleeps a hundredth of a second at a time. If it wakes late by more than a twentieth of a second, nothing ran
meanwhile. Its priority is higher than that of every thread of a test, where that is permitted. So a real-time thread
that never waits is no pause of the machine.
"""

import contextlib
import os
import sys
import time

NAP_S, PAUSE_S = 0.01, 0.05


def main():
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
    parent = os.getppid()
    with open(sys.argv[1], "a", buffering=1) as notes:
        last = time.monotonic()
        while os.getppid() == parent:
            time.sleep(NAP_S)
            now = time.monotonic()
            if now - last - NAP_S > PAUSE_S:
                notes.write(f"{last + NAP_S:.4f} {now:.4f}\n")
                now = time.monotonic()  # a slow disk is no pause
            last = now


if __name__ == "__main__":
    main()
