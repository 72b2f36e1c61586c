"""What this machine does to a real-time thread that does nothing.

    python3 benches/stall_probe.py OUTPUT.json --period-ns 10000000

Sleeps from instant to instant at a higher real-time priority than the node under test, does
nothing else, and counts the instants that it missed by a whole period, by the rule by which the
nodes count overruns. A machine without stalls (no hypervisor that takes the processor away, no
firmware interrupts) has none. Until SIGINT; then it writes `stalls`, the list of [Unix time ns,
missed], and `real_time`: false where the priority was not permitted. What is missed then is due to
other processes as well, and is no measure of the machine.
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
