"""Measures how often this machine stalls a real-time thread that does nothing.

    python3 benches/stall_probe.py OUTPUT.json --period-ns 10000000

The thread only sleeps from instant to instant, at a higher real-time priority than the node under
test. It counts the instants that it missed by a whole period, as the nodes count overruns. Stalls
come from a hypervisor that takes the processor away, or from firmware interrupts.

It runs until SIGINT. Then it writes `stalls`, a list of [Unix time ns, missed], and `real_time`. If
`real_time` is false, the priority was not permitted. Then other processes also cause misses, and
the list does not measure the machine.
"""

import argparse
import json
import os
import signal
import time
from pathlib import Path

PRIORITY = 60


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--period-ns", type=int, required=True)
    arguments = parser.parse_args()
    period = arguments.period_ns
    stopped = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.append(True))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        real_time = True
    except PermissionError:
        real_time = False
    stalls = []
    due = time.monotonic_ns() // period * period
    while not stopped:
        due += period
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        missed = (time.monotonic_ns() - due) // period
        if missed > 0:
            stalls.append([time.time_ns(), missed])
            due += missed * period
    arguments.output.write_text(json.dumps({"real_time": real_time, "stalls": stalls}))


if __name__ == "__main__":
    main()
