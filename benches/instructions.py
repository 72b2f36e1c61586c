#!/usr/bin/env python3
"""Counts the instructions of a push of each kind and of a tick of the reference robot, and compares them with a table.

    benches/instructions.py PROGRAM            compare with benches/instructions.json; exit code 1 if one is 3 % up
    benches/instructions.py PROGRAM --write    write the table

PROGRAM is the example `push_and_tick` of a release build. It needs valgrind, whose counts do not depend on the load of
the machine. They do depend on the compiler: make the table again with a new one.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TABLE = REPOSITORY / "benches/instructions.json"
#: The streams of config/robocache.yaml, one of each kind.
STREAMS = ["camera_front", "lidar", "joints", "wrench", "imu"]
#: The largest share by which a count may grow.
TOLERANCE = 0.03


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("program", type=Path)
    parser.add_argument(
        "--write", action="store_true", help="write the table instead of comparing with it"
    )
    options = parser.parse_args()
    found = {"rustc": compiler(), "instructions": counts(options.program)}
    if options.write:
        TABLE.write_text(json.dumps(found, indent=2) + "\n")
        return 0
    return compare(json.loads(TABLE.read_text()), found)


def compiler():
    """The release of the compiler, as `rustc 1.95.0`."""
    version = subprocess.run(
        ["rustc", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return " ".join(version.split()[:2])


def counts(program):
    """Operation to instructions per call. The runs share the cores, as their counts do not depend on the load."""
    runs = {f"push {stream}": ("push", stream) for stream in STREAMS} | {"tick": ("tick",)}
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        counted = threads.map(lambda run: per_call(program, *run), runs.values())
        return dict(zip(runs, counted, strict=True))


def per_call(program, operation, *arguments):
    """Instructions of one call of `Pipeline::push` or `Pipeline::tick`, the mean of all calls of the program."""
    tool = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--collect-atstart=no",
    ]
    command = [*tool, f"--toggle-collect=*Pipeline>::{operation}", program.resolve(), *arguments]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    calls = re.search(rf"(\d+) {operation}", run.stdout)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not calls or not collected or not int(collected[1]):
        sys.exit(
            f"expected instructions of Pipeline::{operation}, found none\n{run.stdout}{run.stderr}"
        )
    return round(int(collected[1]) / int(calls[1]))


def compare(kept, found):
    """Prints both tables. Returns the exit code."""
    grown = []
    for name, count in found["instructions"].items():
        before = kept["instructions"].get(name)
        change = count / before - 1 if before else float("inf")
        grown += [name] if change > TOLERANCE else []
        print(f"{name:20} {before or 0:>12,} {count:>12,} {change:+8.1%}")
    if not grown:
        return 0
    if kept["rustc"] != found["rustc"]:
        print(
            f"the table is of {kept['rustc']}, and this is {found['rustc']}: that alone may be why"
        )
    print(f"expected at most {TOLERANCE:.0%} more instructions, found more in: {', '.join(grown)}")
    print(
        f"If that was meant, {TABLE.relative_to(REPOSITORY)} becomes:\n{json.dumps(found, indent=2)}"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
