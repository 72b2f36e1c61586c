#!/usr/bin/env python3
"""Runs `cargo test` and judges the tests that fail: `scripts/cargo_test.py cargo test [ARGUMENT...]`.

The arguments are any command that runs `cargo test`. It gets `--no-fail-fast`, and its output is shown as it comes. The
command and the tests that run again have the environment of this script.

A test was not in time if each of its panics begins with `NotInTime` (crates/testing). If the evidence blames the machine
for each of them (tests/evidence.py), the test runs three times more, alone. If it passes each time, it is flaky, and
tests/flaky.py judges that. Everything else is wrong, and is never tried again: another panic, a signal, an exit code, a
test in a comment, a program that does not compile.
"""

import functools
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests"))

import flaky  # noqa: E402 (the path comes first)
from evidence import Evidence, Witness, pauses  # noqa: E402

#: Limit of a test that runs alone [s].
LIMIT = 600
COLORS = re.compile(r"\x1b\[[0-9;]*m")
RUNNING = re.compile(r"^ +Running (?:unittests )?(\S+) \((.+)\)$")
DOC_TESTS = re.compile(r"^ +Doc-tests (\S+)$")
PANIC = re.compile(r"^thread '.*' (?:\(\d+\) )?panicked at .*:\n(.*)$", re.MULTILINE)
#: Panics that tell only of a panic of another thread. That one is in the same output.
CONSEQUENCES = {
    "a scoped thread panicked",
    "called `Result::unwrap()` on an `Err` value: Any { .. }",
}
NOT_IN_TIME = re.compile(
    r"^NotInTime: (?P<what>.*): waited [\d.]+ s \[began=(?P<began>[\d.]+) ended=(?P<ended>[\d.]+) "
    r"patience=(?P<patience>[\d.]+) got_ns=(?P<got>\d+) asked_ns=(?P<asked>\d+) stolen_ns=(?P<stolen>\d+)\]$"
)


@dataclass
class Program:
    """A program of tests, as cargo ran it."""

    #: Its source, from its package on; the name of the crate for tests in comments.
    source: str
    #: The file that cargo ran; None for tests in comments.
    binary: str | None
    lines: list = field(default_factory=list)

    def failures(self):
        """The output of each test that failed, by the test's name."""
        text = "\n".join(self.lines)
        end = text.rfind("\ntest result: FAILED")
        begin = text.rfind("\nfailures:\n    ", 0, end)
        if end < 0 or begin < 0:
            return {}
        names = [line.strip() for line in text[begin:end].splitlines()[2:] if line.strip()]
        heads = {f"---- {name} stdout ----": name for name in names}
        found, name = {name: [] for name in names}, None
        for line in text[:begin].splitlines():
            if line in heads:
                name = heads[line]
            elif name is not None:
                found[name].append(line)
        return {name: "\n".join(lines) for name, lines in found.items()}


def run(command):
    """Runs cargo and shows its output. Returns the exit code and the output without colours."""
    at = command.index("--") if "--" in command else len(command)
    if "--no-fail-fast" not in command[:at]:
        command = [*command[:at], "--no-fail-fast", *command[at:]]
    lines = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=REPOSITORY
    ) as process:
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            lines.append(COLORS.sub("", line.decode(errors="replace").rstrip("\r\n")))
    return process.returncode, lines


def programs(lines):
    """The programs that cargo ran."""
    found = []
    for line in lines:
        running, doc_tests = RUNNING.match(line), DOC_TESTS.match(line)
        if running:
            found.append(Program(running[1], running[2]))
        elif doc_tests:
            found.append(Program(doc_tests[1], None))
        elif found:
            found[-1].lines.append(line)
    return found


def is_explained(code, lines, failed):
    """True if the tests that failed are all that failed."""
    text = "\n".join(lines)
    count = re.search(r"^error: (\d+) targets? failed:$", text, re.MULTILINE)
    ended_badly = re.search(r"^  process didn't exit successfully: ", text, re.MULTILINE)
    return code == 101 and count is not None and int(count[1]) == len(failed) and not ended_badly


def evidence_of(output):
    """The events that did not come and the evidence of each wait; None if the test failed by something else."""
    panics = [message for message in PANIC.findall(output) if message not in CONSEQUENCES]
    facts = [NOT_IN_TIME.match(message) for message in panics]
    if not facts or not all(facts):
        return None
    found = []
    for of in facts:
        began, ended = float(of["began"]), float(of["ended"])
        paused = pauses(began, ended)
        evidence = Evidence(
            waited_s=ended - began,
            patience_s=float(of["patience"]),
            paused_s=sum(paused),
            longest_pause_s=max(paused, default=0.0),
            got_s=int(of["got"]) / 1e9,
            asked_s=int(of["asked"]) / 1e9,
            stolen_s=int(of["stolen"]) / 1e9,
            processors=len(os.sched_getaffinity(0)),
        )
        found.append((of["what"], evidence))
    return found


@functools.cache
def packages():
    """The packages of the workspace: for each its folder, and its targets as (name, source)."""
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    said = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True, text=True)
    found = []
    for package in json.loads(said.stdout)["packages"]:
        targets = [
            (of["name"].replace("-", "_"), Path(of["src_path"])) for of in package["targets"]
        ]
        found.append((Path(package["manifest_path"]).parent, targets))
    return found


def folder_of(program):
    """The folder of the package that a program is of; None for tests in comments, and if it is unknown."""
    name = Path(program.binary or "").name.rpartition("-")[0]
    known = (folder for folder, targets in packages() if (name, folder / program.source) in targets)
    return next(known, None)


def name_of(program, test):
    """The name of a test: its program's source, from the repository on, and its own name."""
    folder = folder_of(program)
    source = (folder / program.source).relative_to(REPOSITORY) if folder else program.source
    return f"{source}::{test}"


def again(program, folder, test):
    """Runs a test alone: the times of its rounds [s], and the output of the one that failed or None."""
    command = [REPOSITORY / program.binary, "--exact", test, "--test-threads=1"]
    env, times = {**os.environ, "CARGO_MANIFEST_DIR": str(folder)}, []
    for _ in range(flaky.ROUNDS):
        began = time.monotonic()
        try:
            tried = subprocess.run(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return [*times, time.monotonic() - began], f"it did not end within {LIMIT} s"
        times.append(time.monotonic() - began)
        if tried.returncode != 0 or "test result: ok. 1 passed;" not in tried.stdout:
            return times, tried.stdout
    return times, None


def judged(failed):
    """Whether the run may be green although these programs have failures, and the lines to print."""
    blamed, lines = [], []
    for program in failed:
        for test, output in program.failures().items():
            name, folder = name_of(program, test), folder_of(program)
            waits = evidence_of(output) if folder else None
            if waits is None:
                lines.append(f"WRONG {name}")
            elif not all(evidence.blames_machine for _, evidence in waits):
                lines.append(
                    f"WRONG {name}: not in time, and the machine is not to blame: {told(waits)}"
                )
            else:
                blamed.append((name, program, test, waits))
    if lines:
        return False, lines + [
            f"the machine is to blame for {name}; not tried again" for name, *_ in blamed
        ]
    if len(blamed) > flaky.ALLOWED:
        return False, [
            f"{len(blamed)} tests were not in time: more than {flaky.ALLOWED}, so none is tried again"
        ]
    texts, passed = {}, True
    for name, program, test, waits in blamed:
        times, failure = again(program, folder_of(program), test)
        if failure is None:
            tried = " ".join(f"{s:.1f} s" for s in times)
            texts[name] = f"{told(waits)}; alone {len(times)} of {flaky.ROUNDS} passed ({tried})"
        else:
            passed = False
            lines.append(f"WRONG {name}: it fails alone as well, round {len(times)}:\n{failure}")
    ok, more = flaky.judge(texts)
    return passed and ok, lines + more


def told(waits):
    """The events that did not come in time, and what the machine did meanwhile."""
    return "; ".join(f"not in {of.patience_s:g} s: {what} ({of})" for what, of in waits)


def main(command):
    """Runs the command, and returns the exit code."""
    if not command:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    witness = Witness()
    try:
        code, lines = run(command)
        if code == 0:
            return 0
        failed = [program for program in programs(lines) if program.failures()]
        if not is_explained(code, lines, failed):
            print("\nWRONG: more than tests failed: see above", flush=True)
            return code if code > 0 else 1
        ok, verdicts = judged(failed)
        print("\n" + "\n".join(verdicts), flush=True)
        return 0 if ok else code
    finally:
        witness.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
